"""Doctor's findings in the console: known at once, and all of them when asked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sites import Directory, Site
from snaptide.web.console import Console
from snaptide.web.pages import doctor as page_of_doctor
from tests.console import Browser, console
from tests.fix_commands import Snaptide
from tests.linked_table import link, run, scalar

HOSTILE = "<script>alert(1)</script>\" onload=''x'' {{ 7 * 7 }} &"
PAGE = "/sites/jfk/doctor"
NOW = f"{PAGE}?examine=now"


@pytest.fixture
def made(sites: Directory, tmp_path: Path) -> Console:
    return console(sites, tmp_path)


@pytest.fixture
def browser(made: Console) -> Browser:
    return Browser(made)


def fail(site: Site, count: int, name: str = "d") -> None:
    """Have the last runs of so many schedules failed."""
    run(
        site,
        "INSERT INTO snaptide.schedule (kind, subject, interval, last_error, disabled)"
        f" SELECT 'push', '{name}' || g, '1h', '{name}', true"
        f" FROM generate_series(1, {count}) g",
    )


def test_nothing_is_examined_until_it_is_asked_for(
    sites: Directory, browser: Browser
) -> None:
    link(sites)
    # A trigger that does not capture is found by looking at tables alone.
    run(sites["hq"], "ALTER TABLE public.orders DISABLE TRIGGER ALL")
    page = browser.get("/sites/hq/doctor")
    assert "Nothing has stopped that should run." in page
    assert 'href="?examine=now"' in page
    assert "trigger" not in page.partition("have not been looked at")[2]
    assert 'href="/sites/hq/doctor"' in browser.get("/sites/hq")
    page = browser.get("/sites/hq/doctor?examine=now")
    assert "snaptide doctor hq" in page
    assert '<span class="flag">error</span>' in page


def test_the_findings_are_those_of_the_command(
    sites: Directory, browser: Browser, snaptide: Snaptide
) -> None:
    fail(sites["jfk"], 2)
    reported = snaptide.report("doctor", "jfk", code=3)
    page = browser.get(NOW)
    for one in reported:
        assert one["subject"] in page
        assert one["what"][:40].replace("'", "&#39;") in page
    assert page.count("<tr>") == len(reported) + 1
    assert "snaptide schedule list jfk" in page


def test_ten_thousand_findings(sites: Directory, browser: Browser) -> None:
    fail(sites["jfk"], 10_000)
    for path in (PAGE, NOW):
        page = browser.get(path)
        assert len(page.encode()) < 80_000
        [left] = re.findall(r"([\d,]+) more findings are not shown", page)
        shown = page.count("<tr>") - 1
        counts = re.findall(r"([\d,]+) (?:warning|info|error|fatal)s?\b", page)
        total = sum(int(one.replace(",", "")) for one in counts)
        assert int(left.replace(",", "")) + shown == total >= 10_000


def test_hostile_strings_are_text(sites: Directory, browser: Browser) -> None:
    # Each of these characters takes four bytes or more of a page.
    fail(sites["jfk"], 100, HOSTILE + '<">' * 200)
    for path in (PAGE, NOW):
        page = browser.get(path)
        assert "<script>alert" not in page
        assert "&lt;script&gt;" in page
        assert "49 &amp;" not in page
        assert len(page.encode()) < 80_000


def test_a_site_that_is_away(sites: Directory, tmp_path: Path) -> None:
    with Directory({"gone": sites["hq"].url.set(port=1, host="127.0.0.1")}) as some:
        browser = Browser(console(some, tmp_path))
        for path in ("/sites/gone/doctor", "/sites/gone/doctor?examine=now"):
            assert "The site does not answer" in browser.get(path, 503)


def test_a_site_without_our_schema(sites: Directory, browser: Browser) -> None:
    run(sites["jfk"], "DROP SCHEMA snaptide CASCADE")
    assert "snaptide site init jfk" in browser.get(NOW)


def test_a_long_examination_is_not_waited_for(
    sites: Directory, made: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_of_doctor, "PATIENCE", 0.3)
    with sites["jfk"].begin() as locking:
        locking.exec_driver_sql("LOCK TABLE snaptide.destination IN EXCLUSIVE MODE")
        locking.exec_driver_sql("LOCK TABLE snaptide.schedule IN ACCESS EXCLUSIVE MODE")
        page = Browser(made).get(NOW)
        assert "has taken 0.3 s, and goes on" in page
        # A second visit waits for the same examination.
        Browser(made).get(NOW)
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        assert scalar(sites["hq"], waiting) == 1
    monkeypatch.setattr(page_of_doctor, "PATIENCE", 30.0)
    assert "goes on" not in Browser(made).get(NOW)
    made.close()
