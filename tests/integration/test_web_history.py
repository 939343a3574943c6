"""The history of a row in the console."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from html import unescape
from pathlib import Path
from urllib.parse import urlencode
from xml.etree import ElementTree as xml

import pytest

import deferred
from masters.analysis import records
from masters.rules import rulebook
from sites import Directory
from tests.console import Browser, console
from tests.fix_worlds import prepared_once
from tests.grouped import without
from tests.linked_table import as_refresh, change_often, link, link_orders, run
from tests.silence import silent

HOSTILE = "<script>alert(1)</script>\" onload='x' {{ 7 * 7 }}"
BOOK = {
    "tables": {
        "orders": {
            "groups": {"amounts": ["qty"]},
            "update": [{"group": "amounts", "method": "discard"}],
        }
    }
}


@prepared_once("hq", "jfk")
def orders(sites: Directory) -> None:
    """One order with a conflict that was settled, and one with one that was not."""
    link_orders(sites, "(1, 'a', 10), (2, 'b', 20)")
    hq, jfk = sites["hq"], sites["jfk"]
    rulebook.apply(hq, BOOK)
    as_refresh(hq, "UPDATE orders SET qty = 27 WHERE id = 1")
    run(jfk, "UPDATE orders SET qty = 15 WHERE id = 1")
    as_refresh(hq, "UPDATE orders SET name = 'hq' WHERE id = 2")
    run(jfk, "UPDATE orders SET name = 'jfk' WHERE id = 2")
    deferred.push(jfk)


@pytest.fixture
def browser(orders: Directory, tmp_path: Path) -> Browser:
    return Browser(console(orders, tmp_path))


def of_row(key: str, table: str = "orders", **more: str) -> str:
    """The address that the form leads to."""
    return "/history?" + urlencode({"table": table, "key": key, "master": "", **more})


def said(page: str) -> list[str]:
    """What the page says of the events, in its order."""
    found = re.findall(r'data-label="What">(.*?)</td>', page, re.S)
    return [unescape(re.sub("<[^>]+>", "", one)) for one in found]


def test_a_form_asks_for_the_row(browser: Browser) -> None:
    page = browser.get("/history")
    assert 'name="table"' in page
    assert "snaptide history TABLE KEY" in page
    assert said(page) == []
    assert "What happened" not in page


def test_what_happened_to_a_row(orders: Directory, browser: Browser) -> None:
    page = browser.get(of_row("1"))
    told = deferred.history(orders.values(), "orders", ["1"])
    assert len(said(page)) == len(told.events)
    [settled] = [one for one in said(page) if "settled" in one]
    assert settled == (
        "update amounts conflict of jfk's update, settled by discard: master_wins"
    )
    [one] = records.list_resolutions(orders["hq"])
    assert f'href="/sites/hq/conflicts/{one.id}"' in page
    assert "id: 10 -> 15" not in page
    assert "qty: 10 -&gt; 15" in page
    assert "id: 1, name: a, qty: 27" in page
    assert "snaptide history orders 1" in page
    [parked] = deferred.list_errors(orders["hq"])
    other = browser.get(of_row("id=2", table="public.orders", master="hq"))
    assert f'href="/sites/hq/errors/{parked.id}"' in other
    assert "snaptide history --master hq public.orders id=2" in other


def drawing(page: str) -> xml.Element:
    """The drawing of a page, which has no style or script of its own."""
    [found] = re.findall(r"<svg.*?</svg>", page, re.S)
    assert "style" not in found
    assert "<script" not in found
    return xml.fromstring(found)


def test_a_drawing_shows_where_things_happened(
    orders: Directory, browser: Browser
) -> None:
    page = browser.get(of_row("1"))
    drawn = drawing(page)
    assert {text.text for text in drawn.iter("text")} == {"hq", "jfk"}
    told = [title.text or "" for title in drawn.iter("title")]
    events = deferred.history(orders.values(), "orders", ["1"]).events
    assert len(told) == len(events)
    assert [one.split(": ")[0].split()[-1] for one in told] == [e.site for e in events]
    [settled] = [one for one in told if "settled" in one]
    assert " hq: update amounts conflict of jfk's update" in settled
    # One line leads from the change at jfk to hq, besides that of each lane.
    places = [path.get("d", "") for path in drawn.iter("path")]
    assert [at.count(" ") for at in places if at[-1] != "z" and "H" not in at] == [3]
    assert "The same from left to right" in page


def test_a_conflict_leads_to_the_history_of_its_row(
    orders: Directory, browser: Browser
) -> None:
    [one] = records.list_resolutions(orders["hq"])
    page = browser.get(f"/sites/hq/conflicts/{one.id}")
    [address] = re.findall(r'href="(/history\?[^"]+)"', page)
    assert "settled by discard" in unescape(browser.get(unescape(address)))


def test_what_cannot_be_found_is_said_above_the_form(browser: Browser) -> None:
    wrong = {
        of_row("7"): "no row",
        of_row("x"): "SNP-322",
        of_row("1\n2"): "SNP-322",
        of_row("1", table="none"): "SNP-321",
        of_row("1", table="a.b.c"): "is not a table name",
        of_row(""): "snaptide history orders KEY",
        of_row("-1"): "snaptide history -- orders -1",
    }
    for address, text in wrong.items():
        page = browser.get(address)
        assert text in page, address
        assert 'name="key"' in page
    assert "too long for a page" in browser.get(of_row("x" * 2_001), 404)


def test_ten_thousand_changes_are_shown_in_parts(
    orders: Directory, browser: Browser
) -> None:
    change_often(orders["jfk"], 10_000)
    told = deferred.history(orders.values(), "orders", ["1"])
    assert len(told.events) > 10_000
    page = browser.get(of_row("1"))
    assert len(page.encode()) < 80_000
    count = len(said(page))
    assert count > 1
    assert "The latest 40 from left to right" in page
    assert len(list(drawing(page).iter("title"))) == 40
    assert f"1 to {count} of {len(told.events):,}" in page
    [after] = re.findall(r'href="(\?[^"]*from=\d+)"', page)
    assert f"{count + 1} to" in browser.get("/history" + unescape(after))


def test_hostile_names_and_values_are_text(sites: Directory, tmp_path: Path) -> None:
    table, column = ('"' + ('"<' * 40)[:n].replace('"', '""') + '"' for n in (50, 60))
    link(sites, table, f"{column} text PRIMARY KEY, n int")
    with sites["jfk"].begin() as connection:
        connection.exec_driver_sql(
            f"INSERT INTO {table} VALUES (%s, 1)".replace("%s", f"$q${HOSTILE}$q$")
        )
    browser = Browser(console(sites, tmp_path))
    name = ('"<' * 40)[:60]
    by_link = {"table": table, "column": name, "value": HOSTILE}
    for page in (
        browser.get(of_row(HOSTILE, table=table)),
        browser.get("/history?" + urlencode(by_link)),
    ):
        assert "<script>alert" not in page
        assert "{{ 7 * 7 }}" in page
        assert said(page) == ["insert, waits for a push to hq"]
        assert len(list(drawing(page).iter("title"))) == 1
        [line] = re.findall(r"<code>(snaptide history .*?)</code>", page, re.S)
        assert shlex.split(unescape(line))[2:] == [table, HOSTILE]


@pytest.mark.parametrize("gone", [without, silent])
def test_a_site_that_is_away_is_named(
    orders: Directory, tmp_path: Path, gone: Callable[..., Directory]
) -> None:
    with gone(orders, "jfk") as left:
        page = Browser(console(left, tmp_path)).get(of_row("1"))
    assert re.search("<strong>jfk</strong>: .*(cannot be reached|not answered)", page)
    assert "settled by discard" in page
    only = Directory({"jfk": "postgresql://u:p@127.0.0.1:1/jfk"})
    with only:
        assert "No site answers" in Browser(console(only, tmp_path)).get(of_row("1"))
