"""The watch for passwords sees them, where and however they are written."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from tests.console import Searched
from tests.fix_secrets import Secrets

SECRET = "correct horse/battery"


def test_password_is_seen(tmp_path: Path) -> None:
    secrets = Secrets()
    secrets.remember("a b/c")
    secrets.look_at("nothing here", "quiet")
    secrets.look_at("postgresql://me:a b/c@host", "plain")
    secrets.look_at("postgresql://me:a%20b%2Fc@host", "quoted")
    (tmp_path / "worker.log").write_text("connecting with a b/c")
    (tmp_path / "snaptide.toml").write_text("password = 'a b/c'")
    secrets.look_through(tmp_path)
    assert secrets.seen == ["plain", "quoted", str(tmp_path / "worker.log")]


def test_password_is_seen_where_it_is_cut() -> None:
    secrets = Secrets()
    secrets.remember(SECRET)
    for text in ("corr...", "correct", "correct horse, or another one"):
        secrets.look_at(text, text)
    for text in ("p=correct h...", "correct%20horse%2Fb..."):
        secrets.look_at(text, "cut")
    assert secrets.seen == ["cut", "cut"]


async def pieces(*, broken: bool) -> AsyncIterator[str]:
    for at in range(0, len(SECRET), 4):
        yield SECRET[at : at + 4]
    if broken:
        raise OSError("The line broke.")


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: PlainTextResponse(f"a {SECRET} b", 500),
        lambda _: Response(headers={"location": f"/?p={SECRET}"}),
        lambda _: StreamingResponse(pieces(broken=False)),
        lambda _: StreamingResponse(pieces(broken=True)),
    ],
    ids=["error", "header", "streamed", "broken off"],
)
def test_each_answer_of_a_console_is_searched(
    answer: Callable[[Request], Response],
) -> None:
    secrets = Secrets()
    secrets.remember(SECRET)
    routes = [Route("/page", answer), Route("/other", lambda _: Response("quiet"))]
    app = Searched(Starlette(routes=routes), secrets)
    client = TestClient(app, raise_server_exceptions=False)
    client.get("/other")
    client.get("/page")
    assert secrets.seen == ["/page"]
