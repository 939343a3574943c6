"""Refreshes of one call read one moment of their master while the first reads in it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

import masters
import snapshots
from sites import Directory, Site, faults
from snapshots.refreshing import shared_moments
from snapshots.refreshing.refresh import refresh_sharing
from snapshots.refreshing.shared_moments import Moments
from snapshots.reports import RefreshReport
from tests.divided import AIRPORTS, divide
from tests.fix_worlds import prepared_once
from tests.linked_table import rows, run
from tests.sent import sent
from tests.stories import assert_equal_to_master, refresh

#: What a master is asked for the description of a table, which is the same for all.
DESCRIBED = "A table with a given name"


@prepared_once("hq", *AIRPORTS, needs="spark")
def divided(sites: Directory) -> None:
    divide(sites)
    run(sites["hq"], "CREATE TABLE crew (id int PRIMARY KEY, name text)")
    masters.create_snapshot_log(sites["hq"], "crew")
    for name in ("jfk", "lax"):
        snapshots.create(sites[name], "crew", master="hq", updatable=True)
        refresh(sites[name], "crew")


@pytest.fixture
def warm(divided: Directory) -> Directory:
    """The same, changed, with Spark running, and sites that agree with their master.

    Before that, a refresh begins a moment of its own.
    """
    change(divided)
    for name in AIRPORTS:
        refresh(divided[name], "flights")
    change(divided)
    return divided


def change(sites: Directory) -> None:
    run(sites["hq"], "UPDATE flights SET seats = seats + 1")


@contextmanager
def held(
    monkeypatch: pytest.MonkeyPatch, site: Site, group: str, moments: Moments
) -> Iterator[Callable[[], RefreshReport]]:
    """A refresh that has begun its moment, and goes on when it is told to."""
    reached, go = threading.Event(), threading.Event()
    first: list[int] = []

    def point(name: str) -> None:
        if name == "refresh.after_window" and threading.get_ident() in first:
            reached.set()
            assert go.wait(60)

    def work() -> RefreshReport:
        first.append(threading.get_ident())
        return refresh_sharing(site, group, moments)

    def go_on() -> RefreshReport:
        go.set()
        return running.result()

    monkeypatch.setattr(faults, "point", point)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(work)
        try:
            assert reached.wait(60)
            yield go_on
        finally:
            go.set()


def test_a_second_site_reads_in_the_moment_of_the_first(
    warm: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    hq, jfk, lax = warm["hq"], warm["jfk"], warm["lax"]
    moments = Moments(shared=True)
    monkeypatch.setattr(shared_moments, "SPAN", 60.0)
    with held(monkeypatch, jfk, "flights", moments) as go_on:
        shown = [(row[0], row[2]) for row in rows(hq, "flights") if row[1] == "LAX"]
        change(warm)
        with sent(hq) as said:
            second = refresh_sharing(lax, "flights", moments)
        first = go_on()
    assert second.position == first.position
    assert [one for one in said if DESCRIBED in one] == []
    assert [(row[0], row[2]) for row in rows(lax, "flights")] == shown
    moments.tell_rest()
    assert registered(hq, "jfk") == registered(hq, "lax") == first.position
    refresh(jfk, "flights")
    refresh(lax, "flights")
    assert_equal_to_master(jfk, lax)


@pytest.mark.parametrize("why", ["old", "not offered"])
def test_a_moment_that_is_not_offered_is_not_read(
    warm: Directory, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    moments = Moments(shared=why == "old")
    if why == "old":
        monkeypatch.setattr(shared_moments, "SPAN", 0.0)
    with held(monkeypatch, warm["jfk"], "flights", moments) as go_on:
        change(warm)
        with sent(warm["hq"]) as said:
            refresh_sharing(warm["lax"], "flights", moments)
        go_on()
    assert [one for one in said if DESCRIBED in one]
    assert_equal_to_master(warm["lax"])


def test_a_site_that_has_pushed_reads_what_it_pushed(
    warm: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    hq, jfk, lax = warm["hq"], warm["jfk"], warm["lax"]
    moments = Moments(shared=True)
    run(hq, "INSERT INTO crew VALUES (1, 'Ada')")
    run(lax, "INSERT INTO crew VALUES (2, 'Ben')")
    with held(monkeypatch, jfk, "crew", moments) as go_on:
        found = refresh_sharing(lax, "crew", moments)
        go_on()
    assert found.pushed is not None
    assert found.pushed.transactions == 1
    assert [one.held_back for one in found.snapshots] == [0]
    assert rows(lax, "crew") == rows(hq, "crew") == [(1, "Ada"), (2, "Ben")]


def test_a_moment_ends_with_the_refresh_that_fails_in_it(
    warm: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    jfk, lax = warm["jfk"], warm["lax"]
    moments = Moments(shared=True)
    with held(monkeypatch, jfk, "flights", moments) as go_on:
        run(
            warm["hq"],
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE state = 'idle in transaction' AND datname = current_database()",
        )
        with pytest.raises(Exception, match=r"connection|terminat"):
            go_on()
        refresh_sharing(lax, "flights", moments)
    assert_equal_to_master(lax)


def test_masters_are_told_all_positions_at_once(warm: Directory) -> None:
    change(warm)
    with sent(warm["hq"]) as said:
        found = snapshots.refresh_many([*warm.values()])
    shown = {(one.site, one.group): one.report.position for one in found if one.report}
    for name in AIRPORTS:
        assert registered(warm["hq"], name) == shown[name, "flights"]
    told = [one for one in said if "UPDATE snaptide.registered_snapshot" in one]
    assert len(told) == 1


def test_a_master_that_cannot_be_told_hears_it_with_the_next_refresh(
    warm: Directory, caplog: pytest.LogCaptureFixture
) -> None:
    hq = warm["hq"]
    before = registered(hq, "jfk")
    change(warm)
    run(
        hq,
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql"
        " AS $$ BEGIN RAISE 'not now'; END $$",
        "CREATE TRIGGER refuse BEFORE UPDATE ON snaptide.registered_snapshot"
        " EXECUTE FUNCTION refuse()",
    )
    found = snapshots.refresh_many([warm["jfk"]])
    assert {one.state for one in found} == {"done"}
    assert "hq was not told that" in caplog.text
    assert registered(hq, "jfk") == before
    run(hq, "DROP TRIGGER refuse ON snaptide.registered_snapshot")
    snapshots.refresh_many([warm["jfk"]])
    assert registered(hq, "jfk") != before
    assert_equal_to_master(warm["jfk"])


def registered(hq: Site, site: str) -> str:
    """The position of a site's flights that the master's log is kept from."""
    [[found]] = run(
        hq,
        "SELECT position::text FROM snaptide.registered_snapshot"
        f" WHERE site_name = '{site}' AND snapshot LIKE '%flights'",
    )
    return str(found)
