"""Repairs in the console: planned, looked at, confirmed with a number, and done."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import snapshots
from sites import Directory, Site
from snaptide.web.console import Console
from tests.console import PATIENCE, Browser, console
from tests.fix_sites import log
from tests.fix_worker import eventually
from tests.fix_worlds import prepared_once
from tests.integration.test_web_checks import HOSTILE, differing, found, save
from tests.linked_table import as_refresh, rows, run, scalar
from tests.sent import noted
from tests.stories import refresh

pytestmark = pytest.mark.usefixtures("spark")

BASE = 'public."snap$_orders"'
#: Seconds; a console that is a process of its own starts Spark first.
SPARK_STARTS = 240
OUTCOME = "SELECT outcome FROM snaptide.operator_action ORDER BY id DESC LIMIT 1"


@prepared_once("hq", "jfk")
def apart(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE orders (id int PRIMARY KEY, name text)",
        "INSERT INTO orders VALUES (1, 'tulips'), (2, 'roses')",
    )
    log(hq, "orders")
    snapshots.create(jfk, "orders", master="hq", updatable=True)
    refresh(jfk, "orders")
    # A row that differs, one that only the master has, one that only the site has.
    as_refresh(
        jfk,
        f"UPDATE {BASE} SET name = 'daffodils' WHERE id = 1",
        f"DELETE FROM {BASE} WHERE id = 2",
        f"INSERT INTO {BASE} VALUES (3, 'asters')",
    )
    snapshots.check(jfk, save=True)


@pytest.fixture
def made(apart: Directory, tmp_path: Path) -> Iterator[Console]:
    found = console(apart, tmp_path)
    yield found
    found.close()


@pytest.fixture
def browser(made: Console) -> Browser:
    return Browser(made)


@pytest.fixture
def path(apart: Directory) -> str:
    [one] = snapshots.list_checks(apart["jfk"])
    return f"/sites/jfk/checks/{one.run}/repair"


@contextmanager
def reads_of_checks(site: Site) -> Iterator[list[str]]:
    """The statements meanwhile that read a saved check."""
    reads: list[str] = []

    def note(statement: str) -> None:
        if "check_" in statement:
            reads.append(statement)

    with noted(site, note):
        yield reads


def settled(browser: Browser, path: str) -> str:
    """The page when nothing is planned or done any more."""

    def look() -> str | None:
        page = browser.get(path)
        return None if "Look again" in page else page

    page: str = eventually(look, seconds=SPARK_STARTS)
    return page


def planned(browser: Browser, path: str, **policy: str) -> str:
    """The page of a new plan."""
    assert browser.send(f"{path}/plan", policy).status_code == 303
    return settled(browser, path)


def confirmed(browser: Browser, path: str, sure: object) -> Any:
    """What comes of typing a number below a plan."""
    [number] = re.findall(r'name="plan" value="(\d+)"', browser.get(path))
    return browser.send(f"{path}/do", {"plan": number, "sure": str(sure)})


def here(jfk: Site) -> list[Any]:
    return rows(jfk, "orders")


def test_it_is_planned_confirmed_done_and_noted(
    apart: Directory, browser: Browser, path: str
) -> None:
    jfk = apart["jfk"]
    as_refresh(jfk, f"UPDATE {BASE} SET name = $q${HOSTILE}$q$ WHERE id = 3")
    before = here(jfk)
    assert f'href="{path}"' in browser.get(path.removesuffix("/repair"))
    assert "Nothing has been planned yet." in browser.get(path)
    page = planned(browser, path)
    assert "3 rows would be mended." in page
    assert "name: daffodils" in page
    assert "<script>alert" not in page
    assert "49 &amp;" not in page
    run_no = path.split("/")[4]
    assert f"snaptide rectify jfk {run_no} --dry-run" in page
    assert here(jfk) == before
    wrong = confirmed(browser, path, 2)
    assert "That is not their number." in wrong.text
    assert here(jfk) == before
    assert confirmed(browser, path, 3).status_code == 303
    page = settled(browser, path)
    assert "3 rows mended." in page
    assert here(jfk) == rows(apart["hq"], "orders")
    assert 'name="plan"' not in page
    assert scalar(jfk, OUTCOME) == "3 rows mended."
    assert f"snaptide rectify jfk {run_no}</code>" in browser.get("/actions")
    assert "Nothing: no row of this check" in planned(browser, path)


def test_the_other_side_can_be_right(
    apart: Directory, browser: Browser, path: str
) -> None:
    before = here(apart["jfk"])
    page = planned(browser, path, reference="site", extra="keep", missing="skip")
    assert "--reference site --extra keep --missing skip" in page
    assert "the site's row" in page
    assert "nothing: left as it is" in page
    assert "1 row would be mended." in page
    assert confirmed(browser, path, 1).status_code == 303
    assert "1 row mended." in settled(browser, path)
    assert (1, "daffodils") in rows(apart["hq"], "orders")
    assert here(apart["jfk"]) == before


def test_only_what_was_seen_is_done(
    apart: Directory, browser: Browser, path: str
) -> None:
    jfk = apart["jfk"]
    planned(browser, path)
    old = browser.get(path)
    # By now one row is right, and the plan is another.
    as_refresh(jfk, f"UPDATE {BASE} SET name = 'tulips' WHERE id = 1")
    assert "1 row would be mended." in planned(browser, path, extra="keep")
    [number] = re.findall(r'name="plan" value="(\d+)"', old)
    answer = browser.send(f"{path}/do", {"plan": number, "sure": "3"})
    assert "Nothing was done: it has been planned anew" in browser.follow(answer)
    assert scalar(jfk, "SELECT count(*) FROM snaptide.operator_action") == 0


def test_pages_do_not_wait_for_it(
    apart: Directory, made: Console, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, go_on, begun = Browser(made), threading.Event(), threading.Event()
    rectify = snapshots.rectify

    def slow(*args: Any, **options: Any) -> Any:
        begun.set()
        assert go_on.wait(PATIENCE)
        return rectify(*args, **options)

    monkeypatch.setattr(snapshots, "rectify", slow)
    try:
        for _ in range(2):  # the second finds it under way
            assert browser.send(f"{path}/plan", {}).status_code == 303
        assert begun.wait(PATIENCE)
        page = browser.get(path)
        assert 'hx-trigger="every 2s"' in page
        assert "The rows are being compared" in page
        assert ">Mend<" not in page
        assert "--dry-run" in browser.get("/work")
        with reads_of_checks(apart["jfk"]) as reads:
            for _ in range(3):
                renewed = browser.client.get(path, headers={"HX-Request": "true"})
                assert "The rows are being compared" in renewed.text
        assert reads == []
    finally:
        go_on.set()
    assert "3 rows would be mended." in settled(browser, path)


def test_a_viewer_looks_and_does_nothing(made: Console, path: str) -> None:
    planned(Browser(made), path)
    viewer = Browser(made, "viewer")
    page = viewer.get(path)
    assert "3 rows would be mended." in page
    assert f'action="{path}' not in page
    for action in ("plan", "do"):
        assert viewer.send(f"{path}/{action}", {}).status_code == 403


def test_what_cannot_be_done_is_said(
    apart: Directory, browser: Browser, path: str
) -> None:
    refused = browser.send(f"{path}/plan", {"reference": "both"})
    assert refused.status_code == 400
    assert "SNP-343" in refused.text
    page = planned(browser, path, reference="newest")
    assert "track_commit_timestamp" in page
    other = "/sites/jfk/checks/77/repair"
    assert "The site keeps no check 77." in browser.get(other, 404)
    answer = browser.send(f"{other}/do", {"plan": "1", "sure": "1"})
    assert answer.status_code == 303
    run(apart["jfk"], "DROP TABLE snaptide.operator_action")
    planned(browser, path)
    confirmed(browser, path, 3)
    # What cannot be noted is not done.
    assert "SNP-" in settled(browser, path)
    assert (1, "daffodils") in here(apart["jfk"])


def test_ten_thousand_rows_fit(apart: Directory, browser: Browser) -> None:
    jfk = apart["jfk"]
    as_refresh(
        jfk,
        f"INSERT INTO {BASE} SELECT n, repeat('\"<', 400)"
        " FROM generate_series(10, 10009) n",
    )
    number = save(apart, found("public.orders", *map(differing, range(10, 10_010))))
    page = planned(browser, path := f"/sites/jfk/checks/{number}/repair")
    assert "10,000 rows would be mended." in page
    assert len(page.encode()) < 80_000
    rest = unescape(re.findall(r'href="\?[^"]*from=(\d+)"', page)[-1])
    assert len(browser.get(f"{path}?from={rest}").encode()) < 80_000


def test_a_site_that_is_away(apart: Directory, tmp_path: Path) -> None:
    with Directory({"gone": apart["hq"].url.set(port=1, host="127.0.0.1")}) as some:
        browser = Browser(console(some, tmp_path))
        path = "/sites/gone/checks/1/repair"
        assert "The site does not answer" in browser.get(path, 503)
