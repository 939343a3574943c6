"""One request: who asks, for what, and what may be answered."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import urlsplit

from starlette.datastructures import FormData
from starlette.requests import Request

from sites import Site
from snaptide.web.console import Console
from snaptide.web.errors import PageMissing, Refused
from snaptide.web.sessions import Session
from snaptide.web.users import Role, User

Found = TypeVar("Found")

COOKIE = "snaptide_session"

#: Machines whose proxy header is believed.
_HERE = ("127.0.0.1", "::1")


@dataclass(frozen=True, kw_only=True)
class Visit:
    """A request of a user."""

    console: Console
    request: Request
    user: User
    #: None where nobody can log in
    session: Session | None
    #: the secret of a session that began with this request
    new_secret: str | None = None
    form: FormData = field(default_factory=FormData)

    @property
    def path(self) -> Mapping[str, str]:
        """The parts of the address that the page's path names."""
        return self.request.path_params

    @property
    def site(self) -> Site:
        """The site that the address names.

        Raises:
            UnknownSite: no site of that name is configured.
        """
        return self.console.sites[self.path["site"]]

    def number(self, name: str) -> int:
        """A number in the address.

        Raises:
            PageMissing: it is too large for one of ours.
        """
        value = int(self.path[name])
        if value >= 2**63:
            raise PageMissing(f"There is no number {value}.")
        return value

    def query(self, name: str) -> str:
        """A parameter of the address; "" if it is not given."""
        return self.request.query_params.get(name, "").strip()

    def query_number(self, name: str) -> int | None:
        """A number among the parameters of the address; None if it is not given.

        Raises:
            PageMissing: it is none of ours.
        """
        text = self.query(name)
        if not text:
            return None
        if not (text.isascii() and text.isdecimal() and int(text) < 2**63):
            raise PageMissing(f"There is no number {text[:20]}.")
        return int(text)

    def sent(self, name: str) -> str:
        """A field of the form; "" if it is not given."""
        value = self.form.get(name, "")
        return value if isinstance(value, str) else ""

    def ask(self, what: Hashable, question: Callable[[Site], Found]) -> Found:
        """Ask the site that the address names.

        Raises:
            SnaptideError: what it said, or SiteUnreachable after two seconds.
        """
        return self.console.questions.ask(self.site, what, question)

    def say(self, notice: str) -> None:
        """Have the next page say something."""
        if self.session is not None:
            self.session.notices.append(notice)

    def notices(self) -> list[str]:
        """What this page has to say; each notice once."""
        if self.session is None or polled(self.request):
            return []
        said, self.session.notices = self.session.notices, []
        return said

    def may(self, role: str) -> bool:
        """Whether the user has a role, for templates."""
        return self.session is not None and self.user.role.may(Role(role))


def polled(request: Request) -> bool:
    """Whether a page asks by itself, to renew a part of it."""
    return "hx-request" in request.headers


def begin(console: Console, request: Request) -> Visit | None:
    """Find out who asks; None if the user has to log in.

    Raises:
        Refused: the proxy says that it is someone whom the console does not know.
    """
    if console.users is None:
        user = User(name="", role=Role.VIEWER)
        return Visit(console=console, request=request, user=user, session=None)
    session = console.sessions.find(
        request.cookies.get(COOKIE, ""), polled=polled(request)
    )
    if console.proxy_header is not None:
        return _by_proxy(console, request, session)
    if session is None:
        return None
    user_now = console.users.find(session.user)
    if user_now is None:  # removed since
        return None
    return Visit(console=console, request=request, user=user_now, session=session)


def _by_proxy(console: Console, request: Request, session: Session | None) -> Visit:
    names = request.headers.getlist(console.proxy_header or "")
    # One that is given twice may come from the browser: the proxy has not removed it.
    believed = (
        len(names) == 1 and request.client is not None and request.client.host in _HERE
    )
    user = console.users.find(names[0]) if console.users and believed else None
    if user is None:
        raise Refused("The proxy has not said who you are, or says an unknown user.")
    secret = None
    if session is None or session.user != user.name:
        secret, session = console.sessions.begin(user.name)
    return Visit(
        console=console,
        request=request,
        user=user,
        session=session,
        new_secret=secret,
    )


def refuse_foreign(request: Request) -> None:
    """Refuse a write that another site's page has sent.

    Raises:
        Refused.
    """
    origin = request.headers.get("origin")
    foreign = origin is not None and (
        urlsplit(origin).netloc.lower() != request.headers.get("host", "").lower()
    )
    if foreign or request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise Refused("The form was sent by another site's page.")


def is_https(request: Request) -> bool:
    """Whether the browser came by TLS, perhaps to a proxy in front of us."""
    forwarded = request.headers.get("x-forwarded-proto", request.url.scheme)
    return forwarded == "https"


def command(*words: object) -> str:
    """A command line of ours, as a shell reads it."""
    return shlex.join(["snaptide", *map(str, words)])
