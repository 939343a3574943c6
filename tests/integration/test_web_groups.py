"""Groups of masters in the console: their masters, paths, and what may differ."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest

import groups
from groups import picture
from groups.paths import full_mesh
from sites import Directory
from snaptide.web.pages.group import drawing
from tests.console import Browser, console
from tests.fix_worlds import prepared_once
from tests.grouped import GROUP, broken_off_at, found_group, group_id, push_all, without
from tests.linked_table import run, scalar
from tests.silence import silent

PAGE = f"/sites/hq/replication-group?name={GROUP}"
HOSTILE = "<script>alert(1)</script>\" onload='x' {{ 7 * 7 }} "
LIST = """
INSERT INTO snaptide.differing_row (group_id, table_schema, table_name, key, why)
SELECT '{group}', 'public', 'orders', jsonb_build_object('id', n::text), {why}
FROM generate_series(1, {count}) n
"""


@prepared_once("hq", "lax", "bos")
def masters(sites: Directory) -> None:
    """A group of three masters: lax exchanges changes with hq alone."""
    found_group(sites, "hq", "lax", "bos", via={"bos": "lax"})
    run(sites["hq"], "INSERT INTO orders (id, qty) VALUES (1, 1)")
    push_all(sites)


@pytest.fixture
def browser(masters: Directory, tmp_path: Path) -> Browser:
    return Browser(console(masters, tmp_path))


def cells(page: str, master: str) -> dict[str, str]:
    """What the table of masters says of one."""
    [row] = re.findall(
        rf'<tr>\s*<th scope="row"><a [^>]*>{master}</a>.*?</tr>', page, re.S
    )
    found = re.findall(r'<td data-label="([^"]+)">(.*?)</td>', row, re.S)
    return {name: re.sub(r"<[^>]+>", "", unescape(text)) for name, text in found}


def test_in_no_group(sites: Directory, tmp_path: Path) -> None:
    browser = Browser(console(sites, tmp_path))
    assert "jfk is in no group of masters" in browser.get(
        "/sites/jfk/replication-groups"
    )
    assert 'href="/sites/jfk/replication-groups"' in browser.get("/sites/jfk")
    assert "SNP-" in browser.get("/sites/jfk/replication-group?name=none", 404)
    assert "does not name a group" in browser.get("/sites/jfk/replication-group", 404)


def test_masters_and_the_paths_between_them(
    masters: Directory, browser: Browser
) -> None:
    run(masters["hq"], "UPDATE orders SET qty = 2")
    listed = browser.get("/sites/hq/replication-groups")
    assert f'href="{PAGE}"' in listed
    assert "snaptide group list hq" in listed
    page = browser.get(PAGE)
    assert cells(page, "hq")["Sends to"] == "lax (1 call waits)"
    assert cells(page, "lax") == {
        "Type": "full_peer",
        "Sends to": "bos, hq",
        "Received": "1 of hq",
        "Problem": "-",
    }
    report = groups.show_group(masters["hq"], GROUP)
    names = [one.master for one in report.masters]
    [drawn] = re.findall(r"<pre>(.*?)</pre>", page, re.S)
    assert unescape(drawn) == picture.text(names, report.paths)
    [svg] = re.findall(r"<svg.*?</svg>", page, re.S)
    arrows = {f"{one.local} to {one.target}" for one in report.paths}
    assert arrows == set(re.findall(r"<title>(\w+ to \w+): changes of", svg))
    assert "style" not in svg
    assert "None are listed." in page
    assert f"snaptide group show hq {GROUP}" in page
    assert f"snaptide group paths hq {GROUP}" in page


def test_a_master_that_is_not_configured(masters: Directory, tmp_path: Path) -> None:
    with Directory({name: masters[name].url for name in ("hq", "lax")}) as known:
        assert "bos" not in known
        page = Browser(console(known, tmp_path)).get(PAGE)
    assert "No site &#39;bos&#39; is configured." in page


def test_a_quiet_group_says_why(masters: Directory, browser: Browser) -> None:
    groups.quiet_group(masters["hq"], GROUP, "lax")
    assert "The group has been quiet since" in browser.get(PAGE)


def test_rows_that_are_listed_are_shown_and_stay_listed(
    masters: Directory, browser: Browser
) -> None:
    lax = masters["lax"]
    group = group_id(lax)
    run(lax, LIST.format(group=group, why="'decided alone'", count=10_000))
    page = browser.get(PAGE)
    assert "10,000" in page
    assert "id=1" in page
    assert "decided alone" in page
    # They are equal; but whoever only looks takes nothing off a list.
    assert scalar(lax, "SELECT count(*) FROM snaptide.differing_row") == 10_000


def test_what_is_interrupted_is_shown_and_not_ended(
    masters: Directory, browser: Browser
) -> None:
    with broken_off_at("group.after_decision"):
        groups.execute_ddl(masters["hq"], GROUP, "ALTER TABLE orders ADD gate text")
    left = "SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()"
    before = [scalar(site, left) for site in masters.values()]
    assert sum(before)
    problem = cells(browser.get(PAGE), "lax")["Problem"]
    assert "snaptide group show ends it" in problem
    assert GROUP in browser.get("/sites/lax/replication-groups")
    assert "There are no rules" in browser.get("/sites/lax/rules")
    assert [scalar(site, left) for site in masters.values()] == before
    groups.show_group(masters["hq"], GROUP)


@pytest.mark.parametrize("gone", [without, silent])
def test_a_master_that_is_away_is_a_state_of_its_line(
    masters: Directory, tmp_path: Path, gone: Callable[..., Directory]
) -> None:
    with gone(masters, "lax") as left:
        browser = Browser(console(left, tmp_path, patience=4.0))
        page = browser.get(PAGE)
        assert re.search(
            "cannot be reached|has not answered", cells(page, "lax")["Problem"]
        )
        assert cells(page, "lax")["Sends to"] == "bos, hq"
        assert cells(page, "bos")["Problem"] == "-"
        assert "at the masters that answer" in page
        assert "The site does not answer" in browser.get(
            "/sites/lax/replication-groups", 503
        )


def test_hostile_names_are_text_and_long_lists_are_cut(
    sites: Directory, tmp_path: Path
) -> None:
    hq = sites["hq"]
    for number in range(20):
        groups.create_group(hq, f"{HOSTILE}{number} ")
    browser = Browser(console(sites, tmp_path))
    listed = browser.get("/sites/hq/replication-groups")
    addresses = [
        unescape(one)
        for one in re.findall(r'href="(/sites/hq/replication-group\?[^"]+)', listed)
    ]
    assert len(addresses) == 20
    page = browser.get(addresses[0])
    for text in (listed, page):
        assert "<script>alert" not in text
        assert "{{ 7 * 7 }}" in text
    assert "The group has only one master." in page
    assert "<svg" not in page
    [first, *_] = groups.list_groups(hq)
    run(hq, "CREATE TABLE orders (id int PRIMARY KEY)")
    groups.add_table(hq, first.name, "orders")
    why = "n::text || repeat('\"', 300)"
    run(hq, LIST.format(group=first.id, why=why, count=10_000))
    page = browser.get(addresses[0])
    assert len(page.encode()) < 80_000
    shown = page.count("<bdi>id=")
    assert f"{10_000 - shown:,} more of them are not shown" in page


def test_paths_that_nobody_could_follow_are_told_in_letters() -> None:
    names = [f"master{number}" for number in range(12)]
    assert drawing("sales", names[:3], full_mesh(names[:3])).startswith("<svg")
    assert drawing("sales", names, full_mesh(names)) == ""
    assert drawing("sales", names[:1], []) == ""
