"""Settled conflicts in the console: the record of a master, and one with its rows."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import deferred
from masters.analysis import records
from masters.rules import rulebook
from sites import Directory, Site
from tests.console import Browser, console
from tests.fix_worlds import prepared_once
from tests.grouped import without
from tests.linked_table import link_orders, run

HOSTILE = "<script>alert(1)</script>\" onload='x' {{ 7 * 7 }}"
#: Names that are escaped in a page, as long as names can be.
LONG = ('"<' * 40)[:63]
BOOK: dict[str, Any] = {
    "tables": {
        "orders": {
            "groups": {"amounts": ["qty", "name"]},
            "update": [{"group": "amounts", "method": "discard"}],
        }
    }
}

FILL = """
INSERT INTO snaptide.resolution_record (table_schema, table_name, row_key, origin,
  origin_transaction, kind, reference, sequence_no, method, decision, old_values,
  new_values, current_values, reason)
SELECT $q${name}$q$, $q${name}$q$, jsonb_build_object($q${name}$q$, $q${value}$q$),
  $q${name}$q$, 't', 'update', $q${name}$q$, 1, 'discard', 'master_wins', {image},
  {image}, {image}, $q${value}$q$
FROM generate_series(1, {count})
"""


@prepared_once("hq", "jfk")
def settled(sites: Directory) -> None:
    """One conflict, settled by a rule."""
    hq, jfk = sites["hq"], sites["jfk"]
    link_orders(sites, "(1, 'a', 10)")
    rulebook.apply(hq, BOOK)
    run(hq, "UPDATE orders SET qty = 27")
    run(jfk, "UPDATE orders SET qty = 15")
    assert deferred.push(jfk).conflicts_resolved == 1


@pytest.fixture
def browser(settled: Directory, tmp_path: Path) -> Browser:
    return Browser(console(settled, tmp_path))


def fill(site: Site, count: int, *, name: str = "n", value: str = "v") -> None:
    """Add records to those of a master."""
    image = "jsonb_build_object('x', 1)"
    run(site, FILL.format(name=name, value=value, count=count, image=image))


def test_nothing_recorded(browser: Browser) -> None:
    assert "No conflict is recorded here." in browser.get("/sites/jfk/conflicts")
    assert "no resolution 7" in browser.get("/sites/jfk/conflicts/7", 404)


def test_a_conflict_is_found_from_its_site(
    settled: Directory, browser: Browser
) -> None:
    [one] = records.list_resolutions(settled["hq"])
    assert 'href="/sites/hq/conflicts"' in browser.get("/sites/hq")
    listed = browser.get("/sites/hq/conflicts")
    assert f'href="/sites/hq/conflicts/{one.id}"' in listed
    for text in ("1 conflict,", "orders", "id=1", "update amounts", "discard"):
        assert text in listed
    assert "snaptide conflicts list hq" in listed


def test_a_conflict_shows_its_rows_the_rule_and_why(
    settled: Directory, browser: Browser
) -> None:
    [one] = records.list_resolutions(settled["hq"])
    page = browser.get(f"/sites/hq/conflicts/{one.id}")
    [qty] = re.findall(r'<tr class="changed">.*?</tr>', page, re.S)
    values = re.findall(r'<bdi class="value">(.*?)</bdi>', qty)
    assert values == ["10", "15", "27", "27"]
    for text in ("1: discard", "master_wins", str(one.reason), "apply a file"):
        assert text in unescape(page)
    assert 'method = "discard"' in unescape(page)
    assert f"snaptide conflicts show hq {one.id}" in page
    replay = f"conflicts replay hq --rules rules.toml --since {one.id - 1}"
    assert replay in page


def test_ten_thousand_conflicts_are_shown_in_parts(
    settled: Directory, browser: Browser
) -> None:
    fill(settled["hq"], 10_000)
    page, seen = "/sites/hq/conflicts?table=n.n", set[str]()
    text = browser.get(page)
    assert "10,000 conflicts that match" in text
    assert "9,950 older ones" in text
    for _ in range(3):
        text = browser.get(page)
        assert len(text.encode()) < 80_000
        numbers = re.findall(r"/conflicts/(\d+)", text)
        assert seen.isdisjoint(numbers)
        seen.update(numbers)
        [more] = re.findall(r'href="(\?[^"]*before=\d+)"', text)
        page = "/sites/hq/conflicts" + more.replace("&amp;", "&")
    assert len(seen) == 150
    assert "--table n.n --before" in text
    assert "No conflict is recorded here that matches" in browser.get(
        "/sites/hq/conflicts?table=n.n&before=1"
    )


def test_what_is_asked_for_is_checked(browser: Browser) -> None:
    for wrong in ("before=x", "before=9999999999999999999999", "before=%C2%B2"):
        assert "SNP-434" in browser.get(f"/sites/hq/conflicts?{wrong}", 404)
    assert "is not a table name" in browser.get("/sites/hq/conflicts?table=a.b.c", 400)
    assert "that matches" in browser.get("/sites/hq/conflicts?origin=x&method=y")


def test_hostile_names_and_values_are_text(
    settled: Directory, browser: Browser
) -> None:
    fill(settled["hq"], 200, name=LONG, value=HOSTILE + "x" * 500)
    [one, *_] = records.list_resolutions(settled["hq"])
    listed = browser.get("/sites/hq/conflicts")
    for page in (listed, browser.get(f"/sites/hq/conflicts/{one.id}")):
        assert "<script>alert" not in page
        assert "onload='x'" not in page
        assert "{{ 7 * 7 }}" in page
        assert len(page.encode()) < 80_000
    shown = len(set(re.findall(r"/conflicts/(\d+)", listed)))
    assert f"{201 - shown} older ones" in listed


def test_rows_that_no_page_has_room_for_are_cut(
    settled: Directory, browser: Browser
) -> None:
    image = (
        "(SELECT jsonb_object_agg('c' || n, repeat('\"', 3000))"
        " FROM generate_series(1, 1600) n)"
    )
    fill_in = FILL.format(name="n", value="v", count=1, image=image)
    run(settled["hq"], fill_in)
    [one, *_] = records.list_resolutions(settled["hq"])
    page = browser.get(f"/sites/hq/conflicts/{one.id}")
    assert len(page.encode()) < 80_000
    shown = page.count("(3,000 characters)") // 3
    assert shown
    assert f"1 to {shown} of 1,600" in page


def test_a_site_that_is_away(settled: Directory, tmp_path: Path) -> None:
    with without(settled, "hq") as some:
        browser = Browser(console(some, tmp_path))
        for page in ("/sites/hq/conflicts", "/sites/hq/conflicts/1"):
            assert "The site does not answer" in browser.get(page, 503)
