"""Logging in and out."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from snaptide.web import visit as visits
from snaptide.web.console import Console
from snaptide.web.errors import Refused
from snaptide.web.page import form_of, set_cookie
from snaptide.web.rendering import render
from snaptide.web.users import User
from snaptide.web.visit import COOKIE

#: The cookie of a browser that shows the form.
_NONCE = "snaptide_login"

_WRONG = "The name or the password is wrong."


def routes(console: Console) -> Iterator[Route]:
    """The form, what it sends, and the way out."""

    def show(request: Request) -> Response:
        return _form(console, request)

    async def log_in(request: Request) -> Response:
        visits.refuse_foreign(request)
        form = await form_of(request)
        token, name, password = (
            str(form.get(field, "")) for field in ("token", "name", "password")
        )
        nonce = request.cookies.get(_NONCE, "")
        if not console.login_forms.accepts(nonce, token):
            return _form(console, request, "The form was too old. Try again.", 403)
        return await run_in_threadpool(_log_in, console, request, name, password)

    async def log_out(request: Request) -> Response:
        visits.refuse_foreign(request)
        form = await form_of(request)
        secret = request.cookies.get(COOKIE, "")
        session = console.sessions.find(secret)
        if session and not session.accepts(str(form.get("token", ""))):
            raise Refused("The form is not of this session.")
        console.sessions.end(secret)
        response = RedirectResponse("/login", status_code=303)
        response.delete_cookie(COOKIE, path="/")
        return response

    yield Route("/login", show, methods=["GET"])
    yield Route("/login", log_in, methods=["POST"])
    yield Route("/logout", log_out, methods=["POST"])


def _form(
    console: Console, request: Request, problem: str = "", status: int = 200
) -> Response:
    if console.users is None or console.proxy_header is not None:
        return RedirectResponse("/", status_code=303)
    nonce = request.cookies.get(_NONCE) or secrets.token_urlsafe(32)
    token = console.login_forms.token(nonce)
    response = render(None, "login.html", {"token": token, "problem": problem}, status)
    set_cookie(request, response, _NONCE, nonce)
    return response


def _log_in(console: Console, request: Request, name: str, password: str) -> Response:
    address = request.client.host if request.client else ""
    if wait := console.attempts.wait(name, address):
        minutes = math.ceil(wait / 60)
        problem = f"Too many logins have failed. Try again in {minutes} minutes."
        response = _form(console, request, problem, 429)
        response.headers["Retry-After"] = str(math.ceil(wait))
        return response
    began = console.attempts.begin(name, address)
    user = _user(console, name, password)
    if user is None:
        return _form(console, request, _WRONG, 401)
    console.attempts.succeeded(name, address, began)
    # A new session, so that one that somebody else has begun is worth nothing.
    console.sessions.end(request.cookies.get(COOKIE, ""))
    secret, _ = console.sessions.begin(user.name)
    response = RedirectResponse("/", status_code=303)
    set_cookie(request, response, COOKIE, secret)
    return response


def _user(console: Console, name: str, password: str) -> User | None:
    if console.users is None or console.proxy_header is not None:
        return None
    return console.users.check(name, password)
