"""What beat and workers do, in the console: by what the databases say of them."""

from __future__ import annotations

import re
import threading
from html import unescape
from pathlib import Path

import pytest

from deferred import runs
from sites import Directory, Site
from sites.sessions import activity
from tests.console import Browser, console
from tests.fix_worker import eventually
from tests.grouped import without
from tests.linked_table import application, run, scalar

HOSTILE = "<script>alert(1)</script>{{ 7 * 7 }}"
ASKED = """
INSERT INTO snaptide.schedule (kind, subject, interval, asked_at)
SELECT 'refresh', {subject} || n, '1h', now() - interval '1 minute' * n
FROM generate_series(1, {count}) n
"""


@pytest.fixture
def browser(sites: Directory, tmp_path: Path) -> Browser:
    return Browser(console(sites, tmp_path))


def part(page: str, heading: str) -> str:
    """The text below a heading of a page."""
    [found] = re.findall(rf"<h2>{heading}</h2>(.*?)(?:<h2>|</main>)", page, re.S)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", found)).split())


def test_nothing_yet(browser: Browser) -> None:
    page = browser.get("/work")
    assert part(page, "Running now") == "Nothing runs."
    assert "beat does not look at all sites: snaptide beat" in unescape(
        re.sub(r"<[^>]+>", "", page)
    )
    assert part(page, "Waiting for a lock").startswith("None of ours.")
    assert "never" in part(page, "Sites")
    assert "snaptide status" in page
    assert 'href="/work"' in browser.get("/")


def test_what_runs_and_what_was_asked_for(sites: Directory, browser: Browser) -> None:
    jfk = sites["jfk"]
    for site in sites.values():
        with site.transaction() as connection:
            runs.note_look(connection)
    assert "workers have ended all that beat asked for" in browser.get("/work")
    run(jfk, ASKED.format(subject="'g'", count=3))
    with activity.report(jfk, "refresh", "flights") as progress:
        progress(5, 10, "rows")
        page = browser.get("/work")
    assert "refresh flights jfk 5 of 10 rows" in part(page, "Running now")
    told = part(page, "Asked for, and not ended")
    assert "refresh g3 jfk 3 min ago refresh g2 jfk 2 min ago" in told
    assert "no worker takes it: snaptide worker" in told
    assert re.search(r"jfk .* ago no worker 1 3, since 3 min", part(page, "Sites"))
    assert "Nothing runs." in browser.get("/work")


def test_a_session_of_ours_that_waits_for_a_lock(
    sites: Directory, browser: Browser
) -> None:
    jfk = sites["jfk"]
    run(jfk, "CREATE TABLE held (id int)")

    def wait(site: Site) -> None:
        with site.transaction() as connection:
            connection.exec_driver_sql("LOCK TABLE public.held")

    with application(jfk) as user:
        user.execute("LOCK TABLE held")
        waits = threading.Thread(target=wait, args=(jfk,))
        waits.start()
        blocked = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        eventually(lambda: scalar(jfk, blocked))
        told = part(browser.get("/work"), "Waiting for a lock")
    waits.join()
    holder = re.search(r" (\d+): ", told)
    assert holder, told
    assert " jfk " in told
    assert "None of ours." in part(browser.get("/work"), "Waiting for a lock")


def test_ten_thousand_with_hostile_names(sites: Directory, browser: Browser) -> None:
    subject = f"$q${HOSTILE}$q$ || repeat('\"<', 300)"
    for site in sites.values():
        run(site, ASKED.format(subject=subject, count=10_000))
    page = browser.get("/work")
    assert len(page.encode()) < 80_000
    assert "<script>alert" not in page
    assert "{{ 7 * 7 }}" in page
    shown = page.count("ago</td>")
    assert shown
    assert f"{20_000 - shown:,} more runs are not shown" in page


def test_a_site_that_is_away_is_named(sites: Directory, tmp_path: Path) -> None:
    with without(sites, "hq") as left:
        page = Browser(console(left, tmp_path)).get("/work")
    assert "<strong>hq</strong>" in page
    assert "jfk" in part(page, "Sites")
