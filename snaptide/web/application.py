"""Puts the console together: pages, actions, errors, and what protects them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deferred import NoSuchDestination, NoSuchSchedule
from deferred.errors import NoSuchError
from groups import NoSuchGroup
from masters.errors import NoSuchRecord
from sites.errors import SiteUnreachable, SnaptideError, UnknownSite
from snapshots import NoSuchCheck, UnknownSnapshot
from snaptide.asking import as_told
from snaptide.errors import NoBroker, Unexpected
from snaptide.web import figures, login, pages
from snaptide.web import visit as visits
from snaptide.web.console import Console
from snaptide.web.errors import PageMissing, Refused
from snaptide.web.rendering import FOLDER, render

#: A request has at most so many bytes.
LARGEST_BODY = 1_000_000

_HEADERS = {
    b"content-security-policy": (
        b"default-src 'self'; base-uri 'none'; object-src 'none'; "
        b"form-action 'self'; frame-ancestors 'none'"
    ),
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
}

#: The status of answers to errors; others are 400.
_STATUS: dict[type[SnaptideError], int] = {
    PageMissing: 404,
    UnknownSite: 404,
    NoSuchError: 404,
    NoSuchCheck: 404,
    UnknownSnapshot: 404,
    NoSuchRecord: 404,
    NoSuchSchedule: 404,
    NoSuchDestination: 404,
    NoBroker: 503,
    NoSuchGroup: 404,
    Refused: 403,
    SiteUnreachable: 503,
    Unexpected: 500,
}


def application(console: Console) -> Starlette:
    """The console as an ASGI application."""
    routes: list[BaseRoute] = [*login.routes(console)]
    routes += figures.routes(console, protected=True)
    routes += [page.route(console) for page in pages.PAGES]
    routes += [action.route(console) for action in pages.ACTIONS]
    routes.append(Mount("/static", StaticFiles(directory=FOLDER / "static")))

    def told(request: Request, error: Exception) -> Response:
        return _told(console, request, error)

    return Starlette(
        routes=routes,
        middleware=[
            Middleware(Protected),
            Middleware(
                TrustedHostMiddleware,
                allowed_hosts=list(console.hosts),
                www_redirect=False,
            ),
        ],
        exception_handlers={
            SnaptideError: told,
            HTTPException: told,
        },
        lifespan=_lifespan(console),
        max_body_size=LARGEST_BODY,
    )


class Protected:
    """Gives every answer the headers that keep a browser from harm."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        cached = str(scope.get("path", "")).startswith("/static/")
        keep = b"max-age=3600" if cached else b"no-store"

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = [(n, v) for n, v in message["headers"] if n not in _HEADERS]
                message["headers"] = [
                    *given,
                    *_HEADERS.items(),
                    (b"cache-control", keep),
                ]
            await send(message)

        await self._app(scope, receive, with_headers)


def _lifespan(
    console: Console,
) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        console.open()
        yield
        console.close()

    return lifespan


def _told(console: Console, request: Request, error: Exception) -> Response:
    """A page that says what happened, and what to do."""
    if isinstance(error, HTTPException):
        problem: SnaptideError = _of_http(error)
        status = error.status_code
    else:
        problem = as_told(error)
        status = _status(problem)
    try:
        visit = visits.begin(console, request)
    except SnaptideError:
        visit = None
    return render(visit, "problem.html", {"problem": problem, "status": status}, status)


def _status(problem: SnaptideError) -> int:
    for kind in type(problem).__mro__:
        if kind in _STATUS:
            return _STATUS[kind]
    return 400


def _of_http(error: HTTPException) -> SnaptideError:
    if error.status_code == 404:
        return PageMissing("There is no such page.")
    return Refused(f"{error.detail}.")
