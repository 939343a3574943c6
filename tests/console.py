"""A console under test: its users, and a browser without a screen."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import httpx2
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sites import Directory
from snaptide.web.application import application
from snaptide.web.console import Console
from snaptide.web.users import Role, Users, set_user
from tests.fix_secrets import Secrets, watched

PASSWORD = "correct horse battery staple"
#: Seconds; a busy machine may take long over a page of ten thousand rows.
PATIENCE = 60.0
_TOKEN = re.compile(r'name="token" value="([^"]+)"')

# Fails the run if a page's log, a report or a file shows it.
watched.remember(PASSWORD)


@cache
def _lines() -> str:
    """A file of users, one of each role; hashing takes its time, so once."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "users"
        for role in Role:
            set_user(path, role.value, role, PASSWORD)
        return path.read_text("utf-8")


def console(sites: Directory, folder: Path, **options: Any) -> Console:
    """A console whose users are called as their roles are."""
    path = folder / "users-password"
    path.write_text(_lines(), "utf-8")
    options = {"patience": PATIENCE, **options}
    return Console(sites=sites, users=Users(path), **options)


class Searched:
    """An application whose answers are searched for passwords, whole or broken off."""

    def __init__(self, app: ASGIApp, secrets: Secrets = watched) -> None:
        self._app = app
        self._secrets = secrets

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        sent = bytearray()

        async def kept(message: Message) -> None:
            for _, value in message.get("headers", ()):
                sent.extend(value + b"\n")
            sent.extend(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, kept)
        finally:
            where = str(scope.get("path", ""))
            self._secrets.look_at(sent, where)


class Browser:
    """A browser of a user.

    Parameters:
        role: the user's; None is not logged in.
    """

    def __init__(self, made: Console, role: str | None = "operator") -> None:
        self.client: httpx2.Client = TestClient(
            Searched(application(made)),
            base_url="http://localhost",
            follow_redirects=False,
        )
        if role is not None:
            assert self.log_in(role).status_code == 303

    def log_in(self, name: str, password: str = PASSWORD) -> Any:
        """Fill in the form of the login page."""
        data = {"token": self.token("/login"), "name": name, "password": password}
        return self.client.post("/login", data=data)

    def get(self, path: str, status: int = 200) -> str:
        """The text of a page."""
        answer = self.client.get(path)
        assert answer.status_code == status, answer.text
        return answer.text

    def token(self, path: str) -> str:
        """The token of a form on a page."""
        found = _TOKEN.search(self.client.get(path).text)
        return unescape(found[1]) if found else ""

    def send(self, path: str, data: Mapping[str, Any], *, of: str = "/") -> Any:
        """Send a form as a page would.

        Parameters:
            of: the page that has a form of the session.
        """
        return self.client.post(path, data={"token": self.token(of), **data})

    def follow(self, answer: Any) -> str:
        """The page that an action leads to."""
        assert answer.status_code == 303, answer.text
        return self.get(answer.headers["location"])
