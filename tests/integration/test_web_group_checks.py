"""Checks of masters in the console: begun there, listed, and row by row."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import groups
from groups import CheckDifference, GroupCheckReport, TableCheck
from groups.check.report import CheckKind, CheckReason
from sites import Directory
from snapshots import Count
from snaptide.web import group_checks
from snaptide.web.console import Console
from tests.console import Browser, console
from tests.fix_commands import Snaptide
from tests.fix_worker import WriteSettings, eventually
from tests.fix_worlds import prepared_once
from tests.grouped import GROUP
from tests.linked_table import run
from tests.three_masters import make_masters, unseen

HOSTILE = "<script>alert(1)</script>\" onload='x' {{ 7 * 7 }} & \u202e"
LIST = f"/sites/hq/replication-group/checks?name={GROUP}"
#: Seconds; a check starts Spark first.
SPARK_STARTS = 240


@prepared_once("hq", "lax", "bos")
def masters(sites: Directory) -> None:
    make_masters(sites)


@pytest.fixture
def made(masters: Directory, tmp_path: Path) -> Iterator[Console]:
    found = console(masters, tmp_path)
    yield found
    found.close()


@pytest.fixture
def browser(made: Console) -> Browser:
    return Browser(made)


def differing(number: int, text: str = "7", **values: Any) -> CheckDifference:
    """A row that bos has otherwise than the two others."""
    return CheckDifference(
        kind=CheckKind.DIFFERS,
        reason=CheckReason.UNEXPLAINED,
        key={"id": str(number)},
        columns=("qty",),
        masters={"hq": "a", "lax": "a", "bos": "b"},
        images={"a": {"qty": text}, "b": {"qty": None}},
        **values,
    )


def found(name: str, *rows: CheckDifference, more: int = 0) -> TableCheck:
    """What a check found of a table."""
    counted = Count(
        kind=CheckKind.DIFFERS,
        reason=CheckReason.UNEXPLAINED,
        rows=len(rows) + more,
    )
    return TableCheck(
        table=name,
        rows={"hq": 12_345, "lax": 12_345, "bos": 12_344},
        counts=(counted,) if rows else (),
        differences=rows,
    )


def report(
    *tables: TableCheck, left_out: Mapping[str, str] | None = None
) -> GroupCheckReport:
    return GroupCheckReport(
        group=GROUP,
        masters=("hq", "lax", "bos"),
        left_out=left_out or {},
        away=tuple(left_out or ()),
        where=None,
        columns=(),
        tables=tables,
        at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        seconds=1.5,
    )


def finds(monkeypatch: pytest.MonkeyPatch, what: GroupCheckReport) -> None:
    """Have checks find this."""
    monkeypatch.setattr(groups, "check", lambda *_, **__: what)


def begun(browser: Browser) -> str:
    """The address of a check that the page of a group has begun, and that ended."""
    path = sent(browser)

    def ended() -> bool:
        return "Look again" not in browser.get(path)

    eventually(ended, seconds=SPARK_STARTS)
    return path


def sent(browser: Browser) -> str:
    """The address of a check that the page of a group has begun."""
    answer = browser.send(
        "/sites/hq/replication-group/checks", {"name": GROUP}, of=LIST
    )
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"])


def rows_of(page: str) -> list[str]:
    """The keys of the rows that a page lists."""
    return re.findall(r"<bdi>id: (\d+)</bdi>", page)


def test_nothing_has_been_checked(browser: Browser) -> None:
    page = browser.get(LIST)
    assert "This console has not checked the group yet." in page
    assert "Check all masters now" in page
    assert f"snaptide group check hq {GROUP}" in page
    assert unescape(LIST) in browser.get(f"/sites/hq/replication-group?name={GROUP}")
    missing = browser.get("/sites/hq/replication-group/checks/7", 404)
    assert "This console has run no check 7" in missing
    browser.get("/sites/hq/replication-group/checks", 404)
    browser.get("/sites/hq/replication-group/checks?name=none", 404)
    answer = browser.send("/sites/hq/replication-group/checks", {"name": "none"})
    assert answer.status_code == 404


@pytest.mark.usefixtures("spark")
def test_the_pages_agree_with_the_command(
    masters: Directory, browser: Browser, write_settings: WriteSettings
) -> None:
    snaptide = Snaptide(write_settings(masters))
    unseen(masters["bos"], "UPDATE orders SET qty = 1000 WHERE id = 7")
    unseen(masters["lax"], "DELETE FROM orders WHERE id = 8")
    [told, _] = snaptide.report("group", "check", "hq", GROUP, code=1)["tables"]
    page = browser.get(begun(browser))
    assert "2 rows differ without a reason." in page
    assert sorted(rows_of(page)) == sorted(
        row["key"]["id"] for row in told["differences"]
    )
    assert re.search(r"bos: [^<]*qty: 1000", page)
    assert "lax: no row" in page
    assert "the masters have come apart" in page
    assert f"snaptide group rectify hq {GROUP} --reference MASTER" in page
    listed = browser.get(LIST)
    assert '<span class="flag">2</span>' in listed
    assert "<bdi>operator</bdi>" in listed


def test_equal_masters(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    finds(monkeypatch, report(found("public.orders")))
    page = browser.get(begun(browser))
    assert 'class="notice" role="status">Equal.' in page
    assert "12,344 at bos" in page
    assert "Rows that differ</h2>" not in page
    assert "rectify" not in page


def test_one_check_of_a_group_at_a_time(
    made: Console, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()

    def waits(*_: object, **__: object) -> GroupCheckReport:
        assert go_on.wait(60)
        return report()

    monkeypatch.setattr(groups, "check", waits)
    asked = {"name": GROUP}
    first, second = (
        browser.send("/sites/hq/replication-group/checks", asked) for _ in range(2)
    )
    path = first.headers["location"]
    assert path == second.headers["location"]
    assert "The masters are being compared" in browser.get(path)
    assert "It is running." in browser.get(LIST)
    go_on.set()
    made.group_checks.close()
    assert "Nothing was compared." in browser.get(path)


def test_all_of_ten_thousand_rows_can_be_reached(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [differing(n) for n in range(10_000)]
    finds(monkeypatch, report(found("public.orders", *rows, more=500)))
    path = begun(browser)
    page = browser.get(path)
    assert "1 to 50 of 10,000" in page
    assert "hq, lax: qty: 7; bos: qty: NULL" in page
    assert "500 more rows differ that the check has counted, but not kept" in page
    page = browser.get(f"{path}?from=9990")
    assert rows_of(page) == [str(n) for n in range(9_990, 10_000)]
    for wrong in ("-1", "x", "9" * 30):
        browser.get(f"{path}?from={wrong}", 404)


def test_the_rows_of_one_table(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["public.a", 'public."b&c ?"']
    tables = [found(name, differing(n)) for n, name in enumerate(names)]
    finds(monkeypatch, report(*tables))
    path = begun(browser)
    page = browser.get(path)
    assert sorted(rows_of(page)) == ["0", "1"]
    links = re.findall(r'href="(\?table=[^"]*)"', page)
    assert rows_of(browser.get(f"{path}{unescape(links[1])}")) == ["1"]


def test_much_of_it_and_hostile_values(
    masters: Directory,
    made: Console,
    browser: Browser,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    long = HOSTILE * 200
    rows = [differing(n, long, detail=long, transaction="<b>") for n in range(100)]
    tables = [found(f'public."{n} {HOSTILE}"', *rows) for n in range(300)]
    away = {f"m{n:05} {HOSTILE}": long for n in range(10_000)}
    finds(monkeypatch, report(*tables, left_out=away))
    # More than are kept; a page of each would take most of the time.
    for _ in range(group_checks.KEPT + 9):
        made.group_checks.begin(masters["hq"], GROUP, "operator").result.result(60)
    path = begun(browser)
    for address in (path, LIST):
        page = browser.get(address)
        assert "<script>alert" not in page
        assert "49 &amp;" not in page
        assert len(page.encode()) < 80_000
    page = browser.get(path)
    assert "&lt;script&gt;" in page
    assert page.count("<dt>Left out</dt>") < 10_000
    assert "more masters that were left out are not shown" in page
    assert "more lines are not shown" in page


def test_what_fails_is_said(
    masters: Directory, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> GroupCheckReport:
        raise groups.CheckDisturbed(HOSTILE)

    monkeypatch.setattr(groups, "check", fails)
    for page in (browser.get(begun(browser)), browser.get(LIST)):
        assert "&lt;script&gt;" in page
        assert "<script>alert" not in page
    run(masters["hq"], "DROP SCHEMA snaptide CASCADE")
    assert "SNP-" in browser.get(LIST, 400)


def test_a_side_that_is_away(
    masters: Directory,
    browser: Browser,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    away = replace(
        report(found("public.orders"), left_out={"bos": "bos is away"}),
        masters=("hq", "lax"),
    )
    finds(monkeypatch, away)
    page = browser.get(begun(browser))
    assert "<dt>Left out</dt><dd><bdi>bos</bdi>: <bdi>bos is away</bdi>" in page
    assert 'class="problem" role="status">Equal.' in page
    with Directory({"gone": masters["hq"].url.set(port=1, host="127.0.0.1")}) as some:
        of_gone = Browser(console(some, tmp_path))
        for path in (LIST, "/sites/hq/replication-group/checks/1"):
            answer = of_gone.get(path.replace("/hq/", "/gone/"), 503)
            assert "The site does not answer" in answer


def test_a_viewer_looks_and_begins_nothing(
    made: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    finds(monkeypatch, report())
    viewer = Browser(made, "viewer")
    assert "Check all masters now" not in viewer.get(LIST)
    answer = viewer.send("/sites/hq/replication-group/checks", {"name": GROUP})
    assert answer.status_code == 403
