"""`snaptide web` and `snaptide metrics` as processes: they answer, and end well."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import psutil
import pytest

import deferred
from sites import Directory
from snaptide.embedded.ports import HOST, free_port
from snaptide.status import status_of
from tests.console import Browser, console
from tests.fix_secrets import watched
from tests.fix_worker import Service, Services, WriteSettings, eventually
from tests.integration import test_web_repair
from tests.let_go import wait_until_let_go
from tests.linked_table import application, rows, run, scalar
from tests.stories import refresh

pytestmark = pytest.mark.usefixtures("spark")

apart, path = test_web_repair.apart, test_web_repair.path


class Remote(Browser):
    """A browser of an operator, at a console that is another process."""

    def __init__(self, client: httpx2.Client) -> None:
        self.client = client
        assert self.log_in("operator").status_code == 303


@pytest.fixture
def services(apart: Directory, write_settings: WriteSettings) -> Iterator[Services]:
    started = Services(write_settings(apart))
    yield started
    started.stop()


@pytest.fixture
def address() -> str:
    return f"{HOST}:{free_port()}"


@pytest.fixture
def web(
    apart: Directory, services: Services, address: str, tmp_path: Path
) -> Iterator[Service]:
    console(apart, tmp_path)  # writes the file of users
    users = str(tmp_path / "users-password")
    started = services.snaptide("web", "--listen", address, "--users", users)
    started.wait_for_line("Application startup complete")
    yield started
    assert "Traceback" not in started.printed()


@pytest.fixture
def browser(web: Service, address: str) -> Iterator[Browser]:
    def look(answer: httpx2.Response) -> None:
        watched.look_at(answer.read(), str(answer.url))

    hooks = {"response": [look]}
    with httpx2.Client(base_url=f"http://{address}", event_hooks=hooks) as client:
        yield Remote(client)


def test_it_ends_though_browsers_are_there(
    web: Service, browser: Browser, address: str
) -> None:
    assert f"The console is at http://{address}/" in web.printed()
    assert "Overview" in browser.get("/")
    web.ask_to_stop()
    web.wait()
    with pytest.raises(httpx2.ConnectError):
        browser.client.get("/")


@pytest.mark.parametrize("killed", [False, True])
def test_work_goes_on_without_it(
    apart: Directory, web: Service, browser: Browser, path: str, killed: bool
) -> None:
    """Also if it was killed in the middle of something; nothing is locked any more."""
    hq, jfk = apart["hq"], apart["jfk"]
    for page in ("/", "/work", "/sites/jfk", "/sites/jfk/queue", "/sites/hq/errors"):
        browser.get(page)
    if killed:
        assert browser.send(f"{path}/plan", {}).status_code == 303
        eventually(lambda: status_of(jfk).activities, what="the plan: to be made")
        web.kill()
    else:
        web.ask_to_stop()
        web.wait()
    wait_until_let_go(apart.values())
    assert status_of(jfk).activities == ()
    run(jfk, "INSERT INTO orders VALUES (8, 'peonies')")
    run(hq, "INSERT INTO orders VALUES (9, 'lilies')")
    pushed = deferred.push(jfk)
    assert (pushed.transactions, pushed.errors) == (1, 0)
    refresh(jfk, "orders")
    assert (8, "peonies") in rows(hq, "orders")
    assert (9, "lilies") in rows(jfk, "orders")
    wait_until_let_go(apart.values())


def test_figures_are_served_without_the_console(
    services: Services, address: str
) -> None:
    started = services.snaptide("metrics", "--listen", address)
    started.wait_for_line("Application startup complete")
    with httpx2.Client(base_url=f"http://{address}") as client:
        assert 'snaptide_up{site="jfk"} 1.0' in client.get("/metrics").text
        assert client.get("/readyz").text == "ok\n"
        assert client.get("/sites/jfk").status_code == 404


def test_a_repair_that_runs_is_done_first(
    apart: Directory, web: Service, browser: Browser, path: str
) -> None:
    jfk = apart["jfk"]
    page = test_web_repair.planned(browser, path)
    [number] = re.findall(r'name="plan" value="(\d+)"', page)
    with application(jfk) as session:
        session.execute("LOCK TABLE snaptide.operator_action")
        sent = browser.send(f"{path}/do", {"plan": number, "sure": "3"})
        assert sent.status_code == 303
        waits = (
            "SELECT count(*) FROM pg_locks"
            " WHERE NOT granted AND relation = 'snaptide.operator_action'::regclass"
        )
        eventually(lambda: scalar(jfk, waits) == 1)
        web.ask_to_stop()
        web.wait_for_line("Waiting for application shutdown")
        assert psutil.pid_exists(web.pid)
        session.rollback()
    web.wait()
    assert rows(jfk, "orders") == rows(apart["hq"], "orders")
    assert scalar(jfk, test_web_repair.OUTCOME) == "3 rows mended."
