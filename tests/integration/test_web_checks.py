"""Saved checks in the console: the list, one check, and the rows that differ."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from sites import Directory
from snapshots import CheckReport, Count, Difference, Kind, Reason, SnapshotCheck
from snapshots.check import saved
from tests.console import Browser, console
from tests.fix_commands import Snaptide
from tests.linked_table import run

HOSTILE = "<script>alert(1)</script>\" onload='x' {{ 7 * 7 }} & \u202e"


@pytest.fixture
def browser(sites: Directory, tmp_path: Path) -> Browser:
    return Browser(console(sites, tmp_path))


def differing(number: int, **values: Any) -> Difference:
    """A row that differs without a reason."""
    return Difference(
        kind=values.pop("kind", Kind.DIFFERS),
        reason=values.pop("reason", Reason.UNEXPLAINED),
        key={"id": str(number)},
        columns=("name",),
        master={"name": values.pop("master", "here")},
        here={"name": values.pop("here", None)},
        **values,
    )


def found(
    name: str,
    *rows: Difference,
    counted: int | None = None,
    not_carried: tuple[str, ...] = (),
) -> SnapshotCheck:
    """What a check found of a snapshot."""
    by = {(row.kind, row.reason) for row in rows}
    counts = [
        Count(
            kind=kind,
            reason=reason,
            rows=counted or sum((r.kind, r.reason) == (kind, reason) for r in rows),
        )
        for kind, reason in sorted(by, key=str)
    ]
    return SnapshotCheck(
        name=name,
        group="orders",
        master="hq",
        table="public.orders",
        position="1:1:",
        moment_here="1:1:",
        moment_master="1:1:",
        rows_master=12_345,
        rows_here=12_344,
        counts=tuple(counts),
        differences=rows,
        unproven=None,
        not_carried=not_carried,
    )


def save(
    sites: Directory,
    *of: SnapshotCheck,
    where: str | None = None,
    away: Mapping[str, str] | None = None,
) -> int:
    """Keep a check at jfk; its number."""
    report = CheckReport(
        site="jfk",
        where=where,
        columns=(),
        most=20_000,
        snapshots=of,
        away=away or {},
        at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        seconds=1.5,
    )
    number = saved.save(sites["jfk"], report).run
    assert number is not None
    return number


def rows_of(page: str) -> list[str]:
    """The keys of the rows that a page lists."""
    return re.findall(r"<bdi>id: (\d+)</bdi>", page)


def test_nothing_has_been_checked(browser: Browser) -> None:
    page = browser.get("/sites/jfk/checks")
    assert "No check has been saved here" in page
    assert "snaptide check run jfk --save" in page
    assert "The site keeps no check 7." in browser.get("/sites/jfk/checks/7", 404)
    assert 'href="/sites/jfk/checks"' in browser.get("/sites/jfk")


def test_the_list_and_a_check_agree_with_the_commands(
    sites: Directory, browser: Browser, snaptide: Snaptide
) -> None:
    late = differing(2, reason=Reason.PENDING, transaction="77", here="x")
    number = save(sites, found("public.orders", differing(1), late), where="id < 9")
    page = browser.get("/sites/jfk/checks")
    assert f'href="/sites/jfk/checks/{number}"' in page
    assert "id &lt; 9" in page
    assert "snaptide check list jfk" in page
    [listed] = snaptide.report("check", "list", "jfk")
    assert listed["run"] == number
    page = browser.get(f"/sites/jfk/checks/{number}")
    assert "1 row differs without a reason." in page
    assert "12,345" in page
    assert "name: NULL" in page
    assert "transaction 77" in page
    assert "the two sides have come apart" in page
    assert f"snaptide check show jfk {number}" in page
    assert f"<code>snaptide rectify jfk {number} --dry-run</code>" in page
    assert sorted(rows_of(page)) == ["1", "2"]


def test_what_was_not_compared_is_named(sites: Directory, browser: Browser) -> None:
    some = found("public.orders", not_carried=("secret", HOSTILE))
    whole = save(sites, some)
    page = browser.get(f"/sites/jfk/checks/{whole}")
    assert 'class="notice">Equal.' in page
    assert "without <bdi>secret, &lt;script&gt;" in page
    part = save(sites, found("public.orders"), away={HOSTILE: f"{HOSTILE} is away"})
    page = browser.get(f"/sites/jfk/checks/{part}")
    assert 'class="problem">Equal. Not compared: &lt;script&gt;' in page
    assert "without" not in page
    assert page.count(" is away") == 1
    assert browser.get("/sites/jfk/checks").count('class="flag">not all') == 1


def test_a_parked_row_leads_to_its_transaction(
    sites: Directory, browser: Browser
) -> None:
    one = found("public.a", differing(1, reason=Reason.PARKED, detail="error 7"))
    other = found(
        "public.b",
        differing(2, reason=Reason.PARKED, detail="error 7/../../x"),
        differing(3, detail="error 7"),
    )
    away = replace(found("public.c", *one.differences), master="nowhere")
    page = browser.get(f"/sites/jfk/checks/{save(sites, one, other, away)}")
    assert page.count('<a href="/sites/hq/errors/7">error 7</a>') == 1
    assert re.findall(r'href="[^"]*/errors/[^"]*"', page) == [
        'href="/sites/hq/errors/7"'
    ]


def test_an_equal_check_has_no_rows(sites: Directory, browser: Browser) -> None:
    page = browser.get(f"/sites/jfk/checks/{save(sites, found('public.orders'))}")
    assert "Equal." in page
    assert "snaptide rectify" not in page
    assert "Rows that differ</h2>" not in page


def test_all_of_ten_thousand_rows_can_be_reached(
    sites: Directory, browser: Browser
) -> None:
    rows = [differing(n) for n in range(10_000)]
    number = save(sites, found("public.orders", *rows, counted=10_500))
    path, seen = f"/sites/jfk/checks/{number}", list[str]()
    page = browser.get(path)
    assert "1 to 50 of 10,000" in page
    assert "500 more rows differ that the check has counted, but not kept" in page
    seen += rows_of(page)
    page = browser.get(f"{path}?from=9990")
    assert "9,991 to 10,000 of 10,000" in page
    assert rows_of(page) == [str(n) for n in range(9_990, 10_000)]
    assert ">Next<" not in page
    assert "1 to 50 of" in browser.get(f"{path}?from=10000")
    for wrong in ("-1", "x", "9" * 30):
        browser.get(f"{path}?from={wrong}", 404)


def test_what_was_not_loaded_is_not_called_equal(
    sites: Directory, browser: Browser
) -> None:
    waits = "it has not been loaded yet"
    new = replace(found("new"), moment_here=None, position=None, unproven=waits)
    full = replace(found("full"), unproven="the logs do not name all")
    page = browser.get(f"/sites/jfk/checks/{save(sites, new, full)}")
    assert '<p class="problem">Equal. Not compared: new.</p>' in page
    assert waits in page
    assert "it has not been loaded yet" in page
    assert "the logs do not name all" not in page


def test_the_rows_of_one_snapshot(sites: Directory, browser: Browser) -> None:
    names = ["public.a", 'public."b&c ?"']
    number = save(sites, *(found(name, differing(n)) for n, name in enumerate(names)))
    page = browser.get(f"/sites/jfk/checks/{number}")
    assert sorted(rows_of(page)) == ["0", "1"]
    links = re.findall(r'href="(\?snapshot=[^"]*)"', page)
    chosen = browser.get(f"/sites/jfk/checks/{number}{unescape(links[1])}")
    assert rows_of(chosen) == ["1"]


def test_many_snapshots_and_checks_leave_the_pages_small(
    sites: Directory, browser: Browser
) -> None:
    many = [found(f"public.s{n}_{'x' * 50}", differing(n)) for n in range(300)]
    number = save(sites, *many)
    for _ in range(60):
        save(sites, *many[:20])
    page = browser.get(f"/sites/jfk/checks/{number}")
    assert len(page.encode()) < 80_000
    shown = len(set(re.findall(r"public\.s(\d+)_x+</bdi></a></th>", page)))
    assert f"{300 - shown} more lines are not shown." in page
    page = browser.get("/sites/jfk/checks")
    assert len(page.encode()) < 80_000
    assert re.search(r"1 to \d+ of 61", page)


def test_ten_thousand_groups_that_were_not_compared(
    sites: Directory, browser: Browser
) -> None:
    long = HOSTILE * 9
    away = {f"g{n:05} {long}": long for n in range(10_000)}
    rows = [differing(n, master=long, here=long) for n in range(100)]
    number = save(sites, found("public.orders", *rows), away=away)
    page = browser.get(f"/sites/jfk/checks/{number}")
    assert len(page.encode()) < 80_000
    shown = page.count("<dt>Not compared</dt>")
    assert f"{10_000 - shown:,} more groups that were not compared" in page


def test_hostile_and_long_values_are_text(sites: Directory, browser: Browser) -> None:
    long = HOSTILE * 200
    rows = [
        differing(n, master=long, here=long, detail=long, transaction="<b>")
        for n in range(100)
    ]
    number = save(sites, found(f'public."{HOSTILE}"', *rows), where=long)
    for path in ("/sites/jfk/checks", f"/sites/jfk/checks/{number}"):
        page = browser.get(path)
        assert "<script>alert" not in page
        assert "&lt;script&gt;" in page
        assert "49 &amp;" not in page
        assert len(page.encode()) < 80_000
    rest = int(re.findall(r"from=(\d+)", page)[0])
    assert 0 < rest < 50
    assert "of 100" in browser.get(f"/sites/jfk/checks/{number}?from={rest}")


def test_a_site_that_is_away(sites: Directory, tmp_path: Path) -> None:
    with Directory({"gone": sites["hq"].url.set(port=1, host="127.0.0.1")}) as some:
        browser = Browser(console(some, tmp_path))
        for path in ("/sites/gone/checks", "/sites/gone/checks/1"):
            assert "The site does not answer" in browser.get(path, 503)


def test_a_site_without_our_schema(sites: Directory, browser: Browser) -> None:
    run(sites["jfk"], "DROP SCHEMA snaptide CASCADE")
    assert "SNP-" in browser.get("/sites/jfk/checks", 400)
