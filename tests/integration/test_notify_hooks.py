"""What takes the news of `snaptide notify`: a webhook, and a command."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from snaptide.errors import HookFailed
from snaptide.news import hooks
from snaptide.news.seen import News
from snaptide.sections import NotificationSettings

HOSTILE = "<b>x</b>\" ' \n\x1b[31m {{ 7 * 7 }} $(id)"


@pytest.fixture
def listener() -> Iterator[tuple[str, list[Mapping[str, Any]], list[int]]]:
    """A web server: its address, what was posted there, and the statuses it gives."""
    posted: list[Mapping[str, Any]] = []
    statuses: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            posted.append(json.loads(self.rfile.read(size)))
            self.send_response(statuses.pop(0) if statuses else 204)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{made.server_port}/secret", posted, statuses
        made.shutdown()


def news(what: str = "It is so.") -> News:
    return News(site="hq", kind="parked", subject="7", what=what, todo="snaptide")


def test_a_webhook_gets_json_and_says_whether_it_took_it(
    listener: tuple[str, list[Mapping[str, Any]], list[int]],
) -> None:
    url, posted, statuses = listener
    known = hooks.configured(NotificationSettings(webhook=url))  # type: ignore[arg-type]
    known["webhook"](news(HOSTILE))
    assert posted[0]["what"] == HOSTILE
    assert posted[0]["text"].startswith("hq parked 7: ")
    for status in (500, 302):
        statuses.append(status)
        with pytest.raises(HookFailed, match=f"status {status}"):
            known["webhook"](news())
    assert len(posted) == 3
    gone = hooks.configured(
        NotificationSettings(webhook="http://127.0.0.1:1/secret")  # type: ignore[arg-type]
    )
    with pytest.raises(HookFailed) as raised:
        gone["webhook"](news())
    assert "secret" not in str(raised.value)


def test_a_command_gets_json_on_its_input(tmp_path: Path) -> None:
    target = tmp_path / "taken.json"
    script = f"import sys; open({str(target)!r}, 'w').write(sys.stdin.read())"
    known = hooks.configured(
        NotificationSettings(command=[sys.executable, "-c", script])
    )
    known["command"](news(HOSTILE))
    assert json.loads(target.read_text("utf-8"))["what"] == HOSTILE
    for command, why in (
        ([sys.executable, "-c", "raise SystemExit(5)"], "ended with 5"),
        ([str(tmp_path / "none")], "cannot be run"),
    ):
        known = hooks.configured(NotificationSettings(command=command))
        with pytest.raises(HookFailed, match=why):
            known["command"](news())


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://a/b", "https://", "x"])
def test_a_webhook_is_an_address_of_the_web(url: str) -> None:
    with pytest.raises(ValueError, match="not of the form"):
        NotificationSettings(webhook=url)  # type: ignore[arg-type]
