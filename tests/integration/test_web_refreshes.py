"""The last refreshes of a group in the console, and its age as a drawing."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as xml

import pytest

import snapshots
from sites import Directory
from snapshots import MassDelete
from tests.console import Browser, console
from tests.fix_commands import Snaptide
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import run
from tests.stories import refresh, user

PAGE = "/sites/jfk/groups/airport"
HOSTILE = "<script>alert(1)</script>/..\" onload='x' {{ 7 * 7 }} & ?#%\u202e"


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    """A group that has never been refreshed."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.orders (id int PRIMARY KEY, qty int)",
        "INSERT INTO public.orders SELECT g, g FROM generate_series(1, 9) g",
    )
    log(hq, "orders")
    snapshots.create(jfk, "orders", master="hq", group="airport", updatable=True)


@pytest.fixture
def browser(sites: Directory, tmp_path: Path) -> Browser:
    return Browser(console(sites, tmp_path))


def note(sites: Directory, count: int, error: str | None = None) -> None:
    """Have the site remember refreshes, each a minute before the next; some failed."""
    told = "NULL" if error is None else "'" + error.replace("'", "''") + "'"
    run(
        sites["jfk"],
        "INSERT INTO snaptide.refresh_run (refresh_group, outcome, first_at, ended_at,"
        " refreshes, longest, previous_at, seconds, steps, inserted, error)"
        " SELECT 'airport', CASE g % 3 WHEN 0 THEN 'failed' WHEN 1 THEN 'nothing new'"
        " ELSE 'refreshed' END, at, at + interval '20 s', 1 + g % 2,"
        " CASE g % 3 WHEN 1 THEN interval '9 s' END, at - interval '40 s', 1.5,"
        ' \'{"push": 0.5, "ask": 0.1, "start": 0.1, "window": 0.1,'
        ' "compare": 0.1, "load": 0.1, "merge": 0.6}\','
        f" 9000000000000 + g, {told}"
        f" FROM generate_series(1, {count}) g,"
        f" LATERAL (SELECT now() - ({count} - g) * interval '1 min') t (at)",
        "UPDATE snaptide.refresh_group SET refreshed_at = now() - interval '40 s'",
    )


def drawing(page: str) -> xml.Element:
    [found] = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert not re.search(r"style=|class=|<script", found)
    return xml.fromstring(found)


def test_nothing_yet(browser: Browser) -> None:
    page = browser.get(PAGE)
    assert "None is noted yet." in page
    assert "It has none before its first refresh." in page
    assert "<svg" not in page


@pytest.mark.usefixtures("spark")
def test_refreshes_are_shown_with_what_they_did(
    sites: Directory, browser: Browser
) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    snapshots.refresh(jfk, "airport")
    for _ in range(3):
        refresh(jfk, "airport")
    run(hq, "DELETE FROM orders WHERE id > 1")
    with pytest.raises(MassDelete):
        refresh(jfk, "airport", mass_delete_share=0.01)
    with user(jfk) as session:
        session.execute("SELECT FROM public.orders WHERE id = 9 FOR UPDATE")
        refresh(jfk, "airport", allow_mass_delete=True)
    page = browser.get(PAGE)
    table = page[page.index("Last refreshes") : page.index("How changes travel")]
    fast, failed, same, load = re.findall(r"<tr>\n<th scope.*?</tr>", table, re.DOTALL)
    assert 'data-label="Outcome">fast<' in fast
    assert 'data-label="Deleted">7<' in fast
    assert 'data-label="Left alone">1<' in fast
    assert '<span class="flag">failed</span>' in failed
    assert "The refresh would delete 8 of 9 rows of orders" in failed
    assert re.search(r"Steps\">ask [\d.]+ s(, \w+ [\d.]+ s)*, merge [\d.]+ s<", failed)
    assert re.search(r"nothing new, 3 times since \d{4}-\d\d-\d\d [\d:]+ UTC<", same)
    assert 'data-label="Outcome">load<' in load
    assert 'data-label="Inserted">9<' in load
    assert 'Steps">ask ' in load
    [title] = drawing(page).iter("title")
    assert re.fullmatch(
        r"Age of the group from [-\d :]+UTC to [-\d :]+UTC", title.text or ""
    )
    assert "A cross is a refresh that failed" in page
    assert "A block stands for refreshes that found nothing new" in page
    # And the overview counts what was left alone.
    line = browser.get("/").partition('id="site-jfk"')[2]
    assert re.findall(r"<td>([\d,]+)", line)[2] == "1"


def test_a_hundred_refreshes(sites: Directory, browser: Browser) -> None:
    note(sites, 100, "SNP-300 " + "x" * 990)
    page = browser.get(PAGE)
    assert len(page.encode()) < 80_000
    assert "9,000,000,000,100" in page
    seen, path = re.findall(r'"Inserted">([\d,]+)<', page), page
    while found := re.search(r'href="\?(refreshes=\d+)"', path):
        path = browser.get(f"{PAGE}?{found[1]}")
        assert len(path.encode()) < 80_000
        seen += re.findall(r'"Inserted">([\d,]+)<', path)
    assert seen == [f"{9_000_000_000_000 + n:,}" for n in range(100, 0, -1)]
    shapes = " ".join(one.get("d", "") for one in drawing(page).iter("path"))
    assert shapes.count("m-4-4") == 2 * 33
    assert "1 to 50" not in browser.get(f"{PAGE}?refreshes=100")


def test_the_command_lists_what_the_page_shows(
    sites: Directory, browser: Browser, snaptide: Snaptide
) -> None:
    words = ("snapshot", "refreshes", "jfk", "airport")
    assert snaptide.report(*words) == []
    note(sites, 100, "SNP-999 [b]it[/b] did not work")
    assert " ".join(words) in browser.get(PAGE)
    listed = snaptide.report(*words)
    past = snapshots.list_refreshes(sites["jfk"], "airport", limit=20)
    assert [one["inserted"] for one in listed] == [one.inserted for one in past]
    assert listed[0]["steps"] == past[0].steps
    assert len(snaptide.report(*words, "--limit", "1000")) == 100
    shown = snaptide.said(*words, "--limit", "1")
    assert "9,000,000,000,100" in shown
    assert "push=0.5 s" in shown
    assert "SNP-999 [b]it[/b] did not work" in shown
    assert "SNP-221" in snaptide.said("snapshot", "refreshes", "jfk", "x", code=1)


def test_lists_keep_each_others_places(sites: Directory, browser: Browser) -> None:
    note(sites, 100)
    run(
        sites["jfk"],
        'INSERT INTO snaptide."extra$_orders" (k1, reason)'
        " SELECT g, 'held' FROM generate_series(1, 200) g",
    )
    page = browser.get(f"{PAGE}?from=50&refreshes=10")
    assert re.search(r'href="\?refreshes=10&amp;from=\d+"', page)
    assert re.search(r'href="\?from=50&amp;refreshes=\d+"', page)


@pytest.mark.parametrize("repeated", [1, 20])
def test_hostile_strings_are_text(
    sites: Directory, browser: Browser, repeated: int
) -> None:
    note(sites, 100, HOSTILE * repeated)
    run(
        sites["jfk"],
        'INSERT INTO snaptide."extra$_orders" (k1, reason)'
        " SELECT g, 'refused: ' || repeat('<\">', 200) FROM generate_series(1, 200) g",
        "UPDATE snaptide.refresh_group SET last_error = repeat('<\">', 400),"
        " held_back = '{\"<script>alert(1)</script>\": 3}'",
    )
    for path in (PAGE, f"{PAGE}?refreshes=50&from=50", "/"):
        page = browser.get(path)
        assert "<script>alert" not in page
        assert "49 &amp;" not in page
        assert "\u202e" not in page
        assert len(page.encode()) < 80_000
    assert "&lt;script&gt;" in browser.get(PAGE)


def test_rows_that_any_groups_left_alone_are_counted(
    sites: Directory, browser: Browser
) -> None:
    run(
        sites["jfk"],
        "INSERT INTO snaptide.refresh_group (name, master, master_id, held_back)"
        " SELECT 'other', master, master_id, '{\"locked\": 1200, \"parent\": 34}'"
        " FROM snaptide.refresh_group",
        "UPDATE snaptide.refresh_group SET held_back = '{\"pending\": 1}'"
        " WHERE name = 'airport'",
    )
    line = browser.get("/").partition('id="site-jfk"')[2]
    assert "<td>1,235</td>" in line
