"""What waits for a destination, in the console: its order, and its calls."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

import deferred
from sites import Directory
from tests.console import Browser, console
from tests.fix_worlds import prepared_once
from tests.grouped import broken_off_at, without
from tests.linked_table import change_often, link, link_orders, run, scalar

PAGE = "/sites/jfk/queue"
HOSTILE = "<script>alert(1)</script>\" onload='x' {{ 7 * 7 }}"


@prepared_once("hq", "jfk")
def orders(sites: Directory) -> None:
    """Two orders, the same at both sites."""
    link_orders(sites, "(1, 'a', 10), (2, 'b', 20)")


@pytest.fixture
def browser(orders: Directory, tmp_path: Path) -> Browser:
    return Browser(console(orders, tmp_path))


def lines(page: str) -> list[list[str]]:
    """The text of each cell of a page's table, line by line."""
    body = re.search(r"<tbody>(.*?)</tbody>", page, re.S)
    rows = re.findall(r"<tr>(.*?)</tr>", body[1] if body else "", re.S)
    return [
        [
            unescape(re.sub(r"<[^>]+>", "", one)).strip()
            for one in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S)
        ]
        for row in rows
    ]


def test_nothing_yet(sites: Directory, tmp_path: Path) -> None:
    browser = Browser(console(sites, tmp_path))
    page = browser.get(PAGE)
    assert "nothing here is sent to another site" in page
    assert "snaptide destination list jfk" in page
    assert "SNP-" in browser.get(f"{PAGE}?to=hq", 404)
    assert "has no calls here" in browser.get(f"{PAGE}/7?to=hq", 404)


def test_nothing_waits(browser: Browser) -> None:
    assert "Nothing waits." in browser.get(PAGE)


def test_transactions_stand_in_their_order_after_those_they_share_rows_with(
    orders: Directory, browser: Browser
) -> None:
    jfk = orders["jfk"]
    run(jfk, "UPDATE orders SET qty = 15 WHERE id = 1")
    run(jfk, "UPDATE orders SET qty = 25 WHERE id = 2")
    run(jfk, "UPDATE orders SET id = 3 WHERE id = 1", "DELETE FROM orders WHERE id = 2")
    run(jfk, "INSERT INTO orders VALUES (1, 'c', 1)")
    page = browser.get(PAGE)
    found = lines(page)
    ids = [line[0] for line in found]
    assert [line[3] for line in found] == ["1", "1", "2", "1"]
    # The key that the third gives up is taken by the fourth.
    assert [line[-1] for line in found] == ["-", "-", ids[1], ids[2]]
    assert {line[5] for line in found} == {"not cut yet"}
    assert "4 transactions, in the order" in page
    assert "snaptide push jfk hq" in page
    assert 'href="/sites/jfk/queue?to=hq"' in browser.get("/sites/jfk")
    calls = browser.get(f"{PAGE}/{ids[2]}?to=hq")
    assert [line[1] for line in lines(calls)] == ["public.orders"] * 2
    assert [line[0].split()[-1] for line in lines(calls)] == ["update", "delete"]
    assert "id=2, qty=25, name=b" in calls


def test_what_is_answered_is_gone_and_what_is_cut_has_its_batch(
    orders: Directory, browser: Browser
) -> None:
    jfk = orders["jfk"]
    run(jfk, "UPDATE orders SET qty = 15 WHERE id = 1")
    deferred.push(jfk)
    run(jfk, "UPDATE orders SET qty = 16 WHERE id = 1")
    with broken_off_at("push.before_apply"):
        deferred.push(jfk)
    [line] = lines(browser.get(PAGE))
    assert line[-1] == "-"
    assert line[5].isdecimal()


def test_ten_thousand_transactions_are_shown_in_parts(
    orders: Directory, browser: Browser
) -> None:
    jfk = orders["jfk"]
    change_often(jfk, 10_000)
    [one] = lines(browser.get(PAGE))
    assert one[3] == "10,000"
    page = browser.get(f"{PAGE}/{one[0]}?to=hq")
    assert len(page.encode()) < 80_000
    shown = len(lines(page))
    assert f"1 to {shown} of 10,000" in page
    [rest] = re.findall(r'href="(\?to=hq&amp;from=\d+)"', page)
    assert f"{shown + 1} to" in browser.get(f"{PAGE}/{one[0]}{unescape(rest)}")
    # As many transactions as calls: each call becomes one of its own.
    run(
        jfk,
        "INSERT INTO snaptide.deferred_transaction (xid, order_no, origin_user)"
        " SELECT (xid::text::bigint + 1000000 + n)::text::xid8, order_no, $q$<b>$q$"
        " FROM snaptide.deferred_transaction, generate_series(1, 9999) n",
    )
    queue = scalar(jfk, "SELECT queue_table FROM snaptide.queue")
    run(
        jfk,
        f'UPDATE snaptide."{queue}" SET xid = t.xid'
        " FROM (SELECT xid, row_number() OVER (ORDER BY xid) n"
        " FROM snaptide.deferred_transaction) t"
        f' WHERE t.n = call_no - (SELECT min(call_no) - 1 FROM snaptide."{queue}")',
    )
    page = browser.get(PAGE)
    assert len(page.encode()) < 80_000
    assert "10,000 transactions, in the order" in page
    assert [line[-1] for line in lines(page)] == [
        "-",
        *(line[0] for line in lines(page)[:-1]),
    ]
    assert "9,951 to 10,000 of 10,000" in browser.get(f"{PAGE}?to=hq&from=9950")


def test_hostile_names_are_text(sites: Directory, tmp_path: Path) -> None:
    table, column = ('"' + ('"<' * 40)[:n].replace('"', '""') + '"' for n in (50, 60))
    link(sites, table, f"{column} text PRIMARY KEY, n int")
    run(sites["jfk"], f"INSERT INTO {table} VALUES ($q${HOSTILE}$q$, 1)")
    browser = Browser(console(sites, tmp_path))
    [line] = lines(browser.get(PAGE))
    page = browser.get(f"{PAGE}/{line[0]}?to=hq")
    assert "<script>alert" not in page
    assert "{{ 7 * 7 }}" in page
    for wrong in (f"{PAGE}?to=%3Cb%3E", f"{PAGE}/{line[0]}?to=%3Cb%3E"):
        assert "<b>" not in browser.get(wrong, 404)
    for wrong in ("from=-1", "from=x"):
        assert "SNP-434" in browser.get(f"{PAGE}?{wrong}", 404)


def test_a_site_that_is_away(orders: Directory, tmp_path: Path) -> None:
    with without(orders, "jfk") as some:
        browser = Browser(console(some, tmp_path))
        for page in (PAGE, f"{PAGE}/7?to=hq"):
            assert "The site does not answer" in browser.get(page, 503)
