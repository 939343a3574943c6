"""The overview of the console: sites with nothing yet, with work, and away."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import deferred
from sites import Directory, Site
from sites.errors import SiteUnreachable
from snaptide.web import console as consoles
from snaptide.web.application import application
from snaptide.web.console import Console
from snaptide.web.questions import STATE, Answer, Questions
from tests.console import Browser, console
from tests.linked_table import link, run, scalar
from tests.sent import sent


def test_nothing_yet(sites: Directory, tmp_path: Path) -> None:
    page = Browser(console(sites, tmp_path)).get("/")
    assert "2 of 2" in page
    assert "none" in page
    assert "No sites are configured" in Browser(Console(sites=Directory({})), None).get(
        "/"
    )


def test_what_waits_is_on_the_overview(sites: Directory, tmp_path: Path) -> None:
    link(sites)
    for number in range(3):
        run(sites["jfk"], f"INSERT INTO public.orders (id) VALUES ({number})")
    page = Browser(console(sites, tmp_path)).get("/")
    assert "<td>3</td>" in page
    assert "<small>at jfk</small>" in page


def test_a_group_says_what_is_wrong_with_it_and_leads_to_its_page(
    sites: Directory, tmp_path: Path
) -> None:
    link(sites)
    names = ("a/<b>", "fresh", "old", "late", "broken")
    for number, name in enumerate(names):
        run(
            sites["jfk"],
            "INSERT INTO snaptide.refresh_group (name, master, master_id, refreshed_at)"
            f" VALUES ($q${name}$q$, '{'gone' if number else 'hq'}',"
            f" gen_random_uuid(), now() - interval '{number + 1} hours')",
        )
    run(
        sites["jfk"],
        "UPDATE snaptide.refresh_group SET held_back = '{\"locked\": 3}'"
        " WHERE master = 'hq'",
    )
    schedule = "INSERT INTO snaptide.schedule (kind, subject, interval, next_at"
    run(
        sites["jfk"],
        f"{schedule}) VALUES ('refresh', 'late', '1h', now() - interval '3 h')",
        f"{schedule}) VALUES ('refresh', 'old', '1h', now() + interval '1 h')",
        f"{schedule}, last_error) VALUES"
        " ('refresh', 'broken', '1h', now() + interval '1 h', 'No.')",
    )
    browser = Browser(console(sites, tmp_path))
    page = browser.get("/")
    groups = re.findall(
        r'<a( class="bad")? id="jfk/([^"]*)" href="([^"]*)">(.*)</a>', page
    )
    at = "/sites/jfk/groups"
    assert groups == [
        (' class="bad"', "broken", f"{at}/broken", "broken 5 h, failed"),
        (' class="bad"', "late", f"{at}/late", "late 4 h, overdue"),
        ("", "old", f"{at}/old", "old 3 h"),
    ]
    assert "and 2 more" in page
    # What it sends does not get to its master.
    run(
        sites["jfk"],
        "INSERT INTO snaptide.destination_state (destination, state, reason)"
        " VALUES ('hq', 'disabled', 'By hand.')",
    )
    page = browser.get("/")
    place = f"{at}/a%2F%3Cb%3E"
    assert f'href="{place}">a/&lt;b&gt; 1 h, 3 held back, hq disabled</a>' in page
    assert browser.client.get(place).status_code == 200
    # What there is to look at is looked at there.
    [found] = re.findall(r'href="(/sites/jfk/doctor)">\d+ findings</a>', page)
    assert "refresh late" in browser.get(found)


def test_a_site_that_is_away_is_a_state_of_its_line(
    sites: Directory, tmp_path: Path
) -> None:
    # Nothing listens there.
    urls = {
        "hq": sites["hq"].url,
        "gone": sites["hq"].url.set(port=1, host="127.0.0.1"),
    }
    with Directory(urls) as some:
        browser = Browser(console(some, tmp_path))
        page = browser.get("/")
        assert "1 of 2" in page
        assert '<span class="state away">away</span>' in page
        assert "The site does not answer" in browser.get("/sites/gone/errors", 503)
        assert "The site does not answer" in browser.get("/sites/gone", 503)
        assert "cannot be reached" in browser.get("/errors")
        assert "cannot be reached" in browser.get("/actions")


def test_a_site_without_our_schema_is_not_ready(
    sites: Directory, tmp_path: Path
) -> None:
    run(sites["jfk"], "DROP SCHEMA snaptide CASCADE")
    browser = Browser(console(sites, tmp_path))
    assert '<span class="state not-ready">not ready</span>' in browser.get("/")
    assert "SNP-" in browser.get("/sites/jfk/errors", 400)
    assert "It has no schema yet." in browser.get("/sites/jfk")


@pytest.mark.parametrize(
    ("revision", "said"),
    [
        ("0001", "run snaptide site init jfk."),
        ("9999", "install the newer Snaptide here."),
    ],
)
def test_a_site_with_another_schema_is_not_ready(
    sites: Directory, tmp_path: Path, revision: str, said: str
) -> None:
    jfk, browser = sites["jfk"], Browser(console(sites, tmp_path))
    run(jfk, f"UPDATE snaptide.alembic_version SET version_num = '{revision}'")
    assert said in browser.get("/")
    # Nor does it need the tables that ours has.
    run(jfk, "DROP TABLE snaptide.beat", "DROP VIEW snaptide.defbacklog CASCADE")
    assert said in browser.get("/")
    assert "1 of 2" in browser.get("/")


def test_a_site_with_nothing_yet(sites: Directory, tmp_path: Path) -> None:
    page = Browser(console(sites, tmp_path)).get("/sites/jfk")
    for text in ("No queues", "No refresh groups", "No schedules", "Nothing runs"):
        assert text in page
    assert "snaptide status jfk" in page


def test_a_site_says_what_waits_and_what_to_do(
    sites: Directory, tmp_path: Path
) -> None:
    link(sites)
    run(sites["jfk"], "INSERT INTO public.orders (id) VALUES (1)")
    hostile = "<script>alert(1)</script>{{ 7 * 7 }}"
    deferred.push(sites["jfk"])
    run(sites["jfk"], "INSERT INTO public.orders (id) VALUES (2)")
    failed = f"UPDATE snaptide.destination SET last_error = '{hostile}'"
    run(sites["jfk"], f"{failed} WHERE name = 'hq'")
    deferred.schedule(sites["jfk"], "purge", every="1h")
    page = Browser(console(sites, tmp_path)).get("/sites/jfk")
    assert "<script>alert" not in page
    assert "{{ 7 * 7 }}" in page
    assert "snaptide push jfk hq" in page
    assert "purge" in page


def test_a_site_with_ten_thousand_of_all(sites: Directory, tmp_path: Path) -> None:
    run(
        sites["jfk"],
        "INSERT INTO snaptide.refresh_group (name, master, master_id, last_error)"
        " SELECT repeat('<', 900) || to_char(g, 'FM00000'), 'hq', gen_random_uuid(),"
        " repeat('<', 900) FROM generate_series(1, 10000) g",
        "INSERT INTO snaptide.schedule (kind, subject, interval, last_error)"
        " SELECT 'refresh', name, '1h', repeat('<', 900) FROM snaptide.refresh_group",
    )
    browser = Browser(console(sites, tmp_path))
    page = browser.get("/sites/jfk")
    assert len(page.encode()) < 80_000
    assert re.search(r"[\d,]+ more findings are not shown", page)
    assert re.search(r"9,9\d\d more schedules are not shown", page)
    [rest] = re.findall(r"\?from=(\d+)", page)
    page = browser.get(f"/sites/jfk?from={rest}")
    assert f"{int(rest) + 1} to " in page
    assert f"%3C{int(rest) + 1:05}" in page


@pytest.fixture
def silent(sites: Directory) -> Site:
    return sites["hq"]


def test_a_silent_site_is_awaited_once_and_by_one_question(silent: Site) -> None:
    questions = Questions(4, patience=0.2)
    asked: list[str] = []
    answered = threading.Event()

    def wait(site: Site) -> object:
        asked.append(site.name)
        return answered.wait()

    [answer] = questions.ask_all({"hq": silent}, "wait", wait).values()
    assert answer.away
    # The next visitor would wait for an hour, if anybody waited.
    questions.patience = 3600
    [answer] = questions.ask_all({"hq": silent}, "wait", wait).values()
    assert answer.away
    assert asked == ["hq"]
    answered.set()
    questions.close()


def test_a_site_that_was_given_up_is_not_awaited_again(silent: Site) -> None:
    """It is asked anew each time, and shown as soon as it answers."""
    questions = Questions(4, patience=0.2)
    gives_up, back = threading.Event(), False

    def state(site: Site) -> str:
        if back:
            return "back"
        gives_up.wait()
        raise SiteUnreachable("No answer.", site=site.name)

    def asked() -> Answer[str]:
        return questions.ask_all({"hq": silent}, "state", state)["hq"]

    assert asked().away
    under_way = questions.begin(silent, "state", state)
    gives_up.set()
    wait([under_way])
    gives_up.clear()
    questions.patience = 3600
    assert asked().away
    under_way = questions.begin(silent, "state", state)
    back = True
    gives_up.set()
    wait([under_way])
    assert asked().value == "back"
    questions.close()


@pytest.mark.parametrize("first", [STATE, "work"])
def test_a_silent_site_holds_back_no_questions_to_others(
    sites: Directory, first: str
) -> None:
    """Ten kinds of pages ask it, and there are three threads."""
    asked, answers = list[str](), threading.Event()

    def state(site: Site) -> str:
        asked.append(STATE)
        answers.wait()
        return "up"

    def work(site: Site) -> None:
        answers.wait()

    questions = Questions(3, patience=0.1, state=state)

    def name_of(kind: int) -> dict[str, Answer[str]]:
        return questions.ask_all(sites, kind, lambda site: site.name)

    try:
        kind = state if first == STATE else work
        assert questions.ask_all({"hq": sites["hq"]}, first, kind)["hq"].away
        # Of a site that was silent to something it is first seen whether it is there.
        assert questions.ask_all({"hq": sites["hq"]}, "other", work)["hq"].away
        questions.patience = 60
        for number in range(10):
            found = name_of(number)
            assert found["hq"].away
            assert found["jfk"].value == "jfk"
        assert asked == [STATE]
        under_way = questions.begin(sites["hq"], STATE, state)
        answers.set()
        wait([under_way])
        assert name_of(10)["hq"].value == "hq"
    finally:
        answers.set()
        questions.close()


def test_a_site_has_one_session_and_one_statement_of_the_console(
    sites: Directory, tmp_path: Path
) -> None:
    """However many people are at the overview, and look at figures besides."""
    link(sites)
    run(sites["jfk"], "INSERT INTO public.orders (id) VALUES (1)")
    browser = Browser(console(sites, tmp_path))
    for site in sites.values():
        site.close()
    with (
        sent(sites["hq"]) as at_hq,
        sent(sites["jfk"]) as at_jfk,
        ThreadPoolExecutor(8) as people,
    ):
        list(people.map(browser.get, ["/", "/metrics"] * 12))
    statements = [*at_hq, *at_jfk]
    sessions = scalar(
        sites["hq"],
        "SELECT array_agg(DISTINCT pid) FROM pg_stat_activity WHERE datname = ANY"
        f" (ARRAY['{sites['hq'].url.database}', '{sites['jfk'].url.database}'])"
        " AND pid <> pg_backend_pid()",
    )
    assert len(sessions) == len(sites)
    assert len(statements) <= 24 * len(sites)
    assert len(set(statements)) == 1


def test_a_console_asks_before_somebody_looks(
    sites: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {name: threading.Event() for name in sites}
    monkeypatch.setattr(
        "snaptide.web.console._state", lambda site: asked[site.name].set()
    )
    with TestClient(application(Console(sites=sites))):
        assert all(one.wait(60) for one in asked.values())


@pytest.mark.parametrize("given_up", [False, True])
def test_the_first_page_does_not_wait_for_a_site_that_has_long_been_asked(
    sites: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given_up: bool
) -> None:
    """Two of four sites are silent since the console began, and may have given up."""
    now, gives_up, again = [0.0], threading.Event(), threading.Event()
    state, names = consoles._state, {"hq", "jfk"}

    def found(site: Site) -> Any:
        if site.name in names:
            return state(site)
        (again if gives_up.is_set() else gives_up).wait()
        raise SiteUnreachable("No answer.", site=site.name)

    monkeypatch.setattr(consoles, "_state", found)
    urls = {one.name: one.url for one in sites.values()}
    with Directory({**urls, "a": urls["hq"], "b": urls["hq"]}) as four:
        made = console(four, tmp_path, patience=3600)
        made.questions._clock = lambda: now[0]
        made.open()
        began = {n: made.questions.begin(s, "status", found) for n, s in four.items()}
        wait([began[name] for name in names])
        now[0] = 3601
        if given_up:
            gives_up.set()
            wait(began.values())
        # An hour would pass if it waited for either.
        states = made.states()
        assert {name for name, one in states.items() if one.away} == {"a", "b"}
        gives_up.set()
        again.set()
        made.close()


def test_a_page_that_renews_itself_leaves_a_busy_site_alone(
    sites: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred times as long as it took, unless somebody loads the page."""
    made = console(sites, tmp_path)
    clock = 1000.0
    monkeypatch.setattr("snaptide.web.console.time.monotonic", lambda: clock)

    def queued(*, polled: bool) -> int:
        answer = made.states(polled=polled)["jfk"].value
        assert answer is not None
        return answer.queued

    link(sites)
    assert queued(polled=True) == 0
    until, answer = made.resting["jfk"]
    assert answer.value is not None
    assert until == clock + 100 * answer.value.seconds
    run(sites["jfk"], "INSERT INTO public.orders (id) VALUES (1)")
    assert queued(polled=True) == 0
    assert queued(polled=False) == 1
    run(sites["jfk"], "INSERT INTO public.orders (id) VALUES (2)")
    assert queued(polled=True) == 1
    clock += 3600
    assert queued(polled=True) == 2
