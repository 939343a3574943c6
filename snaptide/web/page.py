"""A page of the console and an action, and how a request becomes an answer."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from sites.errors import SnaptideError
from snaptide.asking import as_told
from snaptide.errors import Unexpected
from snaptide.web import visit as visits
from snaptide.web.console import Console
from snaptide.web.errors import Refused
from snaptide.web.rendering import render
from snaptide.web.users import Role
from snaptide.web.visit import COOKIE, Visit

log = logging.getLogger(__name__)

#: A form has at most so many fields, and none longer than so many bytes.
MOST_FIELDS, LONGEST_FIELD = 2_000, 512_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What an action shows instead of leading to another page."""

    template: str
    context: Mapping[str, Any]
    status: int = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page that everyone who is logged in may look at.

    Parameters:
        path: as Starlette writes it.
        read: finds what the template shows.
    """

    path: str
    template: str
    read: Callable[[Visit], Mapping[str, Any]]

    def route(self, console: Console) -> Route:
        """The route that answers requests for the page."""

        def answer(request: Request) -> Response:
            visit = visits.begin(console, request)
            if visit is None:
                return _to_login(request)
            with _told():
                page = render(visit, self.template, self.read(visit))
            return _finished(visit, page)

        return Route(self.path, answer, methods=["GET"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """Something that a form asks for.

    Parameters:
        path: as Starlette writes it.
        run: does it; returns the address of the page to go on with, or what to show.
        role: who may do it.
    """

    path: str
    run: Callable[[Visit], str | Shown]
    role: Role = Role.OPERATOR

    def route(self, console: Console) -> Route:
        """The route that answers requests for the action."""

        async def answer(request: Request) -> Response:
            visit = await run_in_threadpool(visits.begin, console, request)
            if visit is None:
                return _to_login(request)
            visits.refuse_foreign(request)
            visit = replace(visit, form=await form_of(request))
            self._refuse(visit)
            return await run_in_threadpool(self._done, visit)

        return Route(self.path, answer, methods=["POST"])

    def _refuse(self, visit: Visit) -> None:
        if visit.session is None:
            raise Refused("This console is read-only: it has no users.")
        if not visit.session.accepts(visit.sent("token")):
            raise Refused("The form is not of this session, or the session has ended.")
        if not visit.user.role.may(self.role):
            raise Refused(f"It needs the role {self.role.value}.")

    def _done(self, visit: Visit) -> Response:
        with _told():
            result = self.run(visit)
            if isinstance(result, str):
                return _finished(visit, RedirectResponse(result, status_code=303))
            shown = render(visit, result.template, result.context, result.status)
        return _finished(visit, shown)


@contextmanager
def _told() -> Iterator[None]:
    """Turn errors of libraries into ours: theirs may show values and statements."""
    try:
        yield
    except SnaptideError:
        raise
    except Exception as error:
        told = as_told(error)
        if isinstance(told, Unexpected):
            # Where it happened; the lines of our code hold no values.
            where = "".join(traceback.format_tb(error.__traceback__))
            log.error("%s\n%s", type(error).__name__, where)
        raise told from None


async def form_of(request: Request) -> FormData:
    """The form that a request sends; files are not taken."""
    return await request.form(
        max_files=0, max_fields=MOST_FIELDS, max_part_size=LONGEST_FIELD
    )


def set_cookie(request: Request, response: Response, name: str, value: str) -> None:
    """Give the browser a cookie that no script and no other site's page can use."""
    response.set_cookie(
        name,
        value,
        httponly=True,
        samesite="strict",
        secure=visits.is_https(request),
        path="/",
    )


def _finished(visit: Visit, response: Response) -> Response:
    if visit.new_secret is not None:
        set_cookie(visit.request, response, COOKIE, visit.new_secret)
    return response


def _to_login(request: Request) -> Response:
    if visits.polled(request):
        # A part of a page is asked for: the whole of it has to go.
        return Response(status_code=204, headers={"HX-Redirect": "/login"})
    return RedirectResponse("/login", status_code=303)
