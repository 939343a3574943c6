"""A refresh group in the console: age, snapshots, and rows that were left alone."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

import snapshots
from deferred import schedules
from sites import Directory
from snapshots import UnknownSnapshot
from tests.console import Browser, console
from tests.fix_commands import Snaptide
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import run, run_each
from tests.stories import refresh, user

HOSTILE = "<script>alert(1)</script>/..\" onload='x' {{ 7 * 7 }} & ?#%"
PAGE = "/sites/jfk/groups/airport"


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    """Two snapshots in one group, which has never been refreshed."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.orders (id int PRIMARY KEY, qty int)",
        "INSERT INTO public.orders SELECT g, g FROM generate_series(1, 9) g",
        "CREATE TABLE public.codes (code text PRIMARY KEY)",
    )
    log(hq, "orders", "codes")
    snapshots.create(jfk, "orders", master="hq", group="airport", updatable=True)
    snapshots.create(jfk, "codes", master="hq", group="airport", where="code <> '<b>'")


@pytest.fixture
def browser(sites: Directory, tmp_path: Path) -> Browser:
    return Browser(console(sites, tmp_path))


def hold(sites: Directory, count: int, reason: str = "held") -> None:
    """Have so many orders left alone."""
    given = reason.replace("'", "''")
    run(
        sites["jfk"],
        'INSERT INTO snaptide."extra$_orders" (k1, reason)'
        f" SELECT g, '{given}' FROM generate_series(1, {count}) g",
    )


def test_nothing_yet(browser: Browser) -> None:
    page = browser.get(PAGE)
    assert "never refreshed" in page
    assert "not filled yet" in page
    assert "code &lt;&gt; &#39;&lt;b&gt;&#39;" in page
    assert "refreshes have left no row alone" in page
    assert "No schedule refreshes, checks or pushes it." in page
    assert "snaptide snapshot list jfk --group airport" in page
    assert "snaptide refresh jfk airport" in page
    assert f'href="{PAGE}"' in browser.get("/sites/jfk")
    assert "There is no refresh group x." in browser.get("/sites/jfk/groups/x", 404)


@pytest.mark.usefixtures("spark")
def test_what_a_refresh_did_and_what_it_left_alone(
    sites: Directory, browser: Browser, snaptide: Snaptide
) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    refresh(jfk, "airport")
    run_each(jfk, "ANALYZE", "UPDATE public.orders SET qty = 0 WHERE id = 1")
    schedules.schedule(jfk, "refresh", "airport", every="1h")
    run(
        jfk,
        'ALTER TABLE public."snap$_orders" ADD CONSTRAINT small CHECK (qty < 100)',
    )
    run(hq, "UPDATE public.orders SET qty = 50 + 50 * (id % 2) WHERE id > 5")
    with user(jfk) as session:
        session.execute("SELECT FROM public.orders WHERE id = 8 FOR UPDATE")
        refresh(jfk, "airport")
    page = browser.get(PAGE)
    assert "fast 20" in page
    assert re.search(r'"Rows">9<', page)
    assert "Queued for hq</dt><dd>1 transaction" in page
    assert "refresh <bdi>airport</bdi></a> every 1h: next" in page
    assert "The site refuses rows; 1 of orders: " in page
    held = snaptide.report("snapshot", "held", "jfk", "airport")
    assert [(o["by"], o["rows"]) for o in held["counts"]] == [
        ("held", 2),
        ("refused", 2),
    ]
    assert {tuple(o["key"]): o["by"] for o in held["rows"]} == {
        ("1",): "held",
        ("7",): "refused",
        ("8",): "held",
        ("9",): "refused",
    }
    why = {tuple(o["key"]): o["why"] for o in held["rows"] if o["by"] == "held"}
    assert why == {("1",): "pending", ("8",): "locked"}
    assert '"More"><bdi>locked<' in page
    assert page.count('<span class="flag">refused</span>') == 2
    assert "small" in page
    assert "<bdi>orders</bdi>: 2 held" in page
    assert "<bdi>orders</bdi>: 2 refused" in page
    assert "snaptide snapshot held jfk airport" in page
    shown = snaptide.said("snapshot", "held", "jfk", "airport", "--limit", "1")
    assert "1 of 4 rows" in shown


def test_lists_in_python(sites: Directory, snaptide: Snaptide) -> None:
    hold(sites, 5, "held: without parent in a: b")
    hold(sites, 2, "held: without parent in a: b")
    hold(sites, 2, "refused: too large: 7")
    run(
        sites["jfk"],
        "INSERT INTO snaptide.\"extra$_codes\" (k1, reason) VALUES ('a', 'folded')",
    )
    jfk = sites["jfk"]
    every = snapshots.list_held(jfk, "airport")
    assert (every.total, len(every.rows)) == (8, 8)
    assert [(o.snapshot, o.by, o.rows) for o in every.counts] == [
        ("codes", "folded", 1),
        ("orders", "held", 5),
        ("orders", "refused", 2),
    ]
    assert [one.why for one in every.rows] == [
        None,
        *["without parent in a: b"] * 5,
        *["too large: 7"] * 2,
    ]
    for offset in range(10):
        part = snapshots.list_held(jfk, "airport", limit=3, offset=offset)
        assert part.rows == every.rows[offset : offset + 3]
        assert part.counts == every.counts
    with pytest.raises(UnknownSnapshot):
        snapshots.list_held(jfk, "orders")
    listed = snapshots.list_snapshots(jfk, group="airport")
    assert [one.name for one in listed] == ["codes", "orders"]
    assert snapshots.list_snapshots(jfk, group="x") == []
    assert snapshots.list_snapshots(jfk, limit=1, offset=1) == listed[1:]
    assert snaptide.report("snapshot", "list", "jfk", "--group", "x") == []


def test_ten_thousand_rows_left_alone(sites: Directory, browser: Browser) -> None:
    hold(sites, 10_000)
    page = browser.get(PAGE)
    assert re.search(r"1 to \d+ of 10,000", page)
    assert "<bdi>orders</bdi>: 10,000 held" in page
    assert len(page.encode()) < 80_000
    assert "10,000 to 10,000 of 10,000" in browser.get(f"{PAGE}?from=9999")
    assert browser.get(f"{PAGE}?from=10001").count('data-label="Why"') == 0


def test_ten_thousand_snapshots(sites: Directory, browser: Browser) -> None:
    columns = (
        "refresh_group, master_schema, master_table, columns, identity_columns,"
        " condition, updatable, schema"
    )
    run(
        sites["jfk"],
        f"INSERT INTO snaptide.snapshot ({columns}, name, base_table, extra_table,"
        f" log_view) SELECT {columns}, name || g, base_table || g, extra_table || g,"
        " log_view || g FROM snaptide.snapshot, generate_series(1, 9998) g"
        " WHERE name = 'codes'",
    )
    page = browser.get(PAGE)
    assert re.search(r"1 to \d+ of 10,000", page)
    assert len(page.encode()) < 80_000
    [rest] = re.findall(r"\?members=(\d+)", page)
    following = browser.get(f"{PAGE}?members={rest}")
    shown = re.findall(r'<th scope="row"><bdi>(\w+)</bdi>', page + following)
    assert len(shown) == len(set(shown)) > 50


@pytest.mark.parametrize("repeated", [1, 5])
def test_hostile_strings_are_text(
    sites: Directory, browser: Browser, repeated: int
) -> None:
    jfk, name = sites["jfk"], HOSTILE * repeated
    # Each of these characters takes four bytes or more of a page.
    hold(sites, 100, f"refused: {HOSTILE}" + '<">' * 200)
    codes = "INSERT INTO snaptide.extra$_codes (k1, reason)"
    keys = "SELECT repeat('<>', 200) || k1, reason FROM snaptide.extra$_orders"
    run(jfk, f"{codes} {keys}")
    quoted = name.replace("'", "''")
    run_each(
        jfk,
        "INSERT INTO snaptide.refresh_group (name, master, master_id, last_error)"
        f" SELECT '{quoted}', '{quoted}', master_id, repeat('{quoted}', 90)"
        " FROM snaptide.refresh_group",
        f"UPDATE snaptide.snapshot SET refresh_group = '{quoted}'",
    )
    schedules.schedule(jfk, "refresh", name, every="1h")
    links = re.findall(r'href="(/sites/jfk/groups/[^"]*)"', browser.get("/sites/jfk"))
    [link] = [unescape(one) for one in links if not one.endswith("/airport")]
    page = browser.get(link)
    assert "<script>alert" not in page
    assert "&lt;script&gt;" in page
    assert "49 &amp;" not in page
    assert len(page.encode()) < 80_000
    assert "of 200" in page


def test_a_site_that_is_away(sites: Directory, tmp_path: Path) -> None:
    with Directory({"gone": sites["hq"].url.set(port=1, host="127.0.0.1")}) as some:
        browser = Browser(console(some, tmp_path))
        away = browser.get("/sites/gone/groups/airport", 503)
        assert "The site does not answer" in away


def test_a_site_without_our_schema(sites: Directory, browser: Browser) -> None:
    run(sites["jfk"], "DROP SCHEMA snaptide CASCADE")
    page = browser.get(PAGE, 400)
    assert "It has no schema yet." in page
    assert "snaptide site init" in page
