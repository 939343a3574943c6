"""Dropping a snapshot that people use: they do not wait, and lose nothing."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from psycopg import Connection

import deferred
import snapshots
from masters.log.snapshot_log import show_snapshot_log
from sites import Directory, Site
from sites.errors import StillNeeded
from sites.tables import locks
from snapshots.definitions.errors import (
    UndeliveredCalls,
    UnknownSnapshot,
)
from tests.fix_moments import Moments
from tests.fix_sites import log
from tests.fix_worker import eventually
from tests.fix_worlds import prepared_once
from tests.linked_table import run
from tests.stories import assert_equal_to_master, refresh, settle, user

pytestmark = pytest.mark.usefixtures("spark")

WITHIN = "SET lock_timeout = '30s'"


@prepared_once("hq", "jfk")
def used(sites: Directory) -> None:
    """An updatable snapshot of three rows at jfk."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.t (id int PRIMARY KEY, v text)",
        "INSERT INTO public.t SELECT i, 'hq' FROM generate_series(1, 3) i",
    )
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    refresh(jfk, "t")


def test_nobody_waits_while_the_master_is_asked(used: Directory, moments: Moments):
    jfk = used["jfk"]

    def use() -> None:
        with user(jfk) as session:
            session.execute(WITHIN)
            session.execute("UPDATE public.t SET v = v")
            assert session.execute("SELECT count(*) FROM public.t").fetchone() == (3,)

    for point in ("snapshot_drop.before_unregister", "snapshot_drop.after_unregister"):
        moments.at(point, use)
    snapshots.drop(jfk, "t")
    assert "snapshot_drop.after_unregister" in moments.reached
    with pytest.raises(UnknownSnapshot):
        snapshots.drop(jfk, "t")


def test_a_view_of_the_user_on_it_is_named(used: Directory) -> None:
    hq, jfk = used["hq"], used["jfk"]
    run(jfk, "CREATE VIEW public.mine AS SELECT * FROM public.t")
    with pytest.raises(StillNeeded, match=r"view public\.mine depends on"):
        snapshots.drop(jfk, "t")
    assert show_snapshot_log(hq, "t").snapshots == ("jfk:t",)
    run(jfk, "DROP VIEW public.mine")
    snapshots.drop(jfk, "t")


def test_no_push_goes_on_to_a_master_of_no_snapshot(used: Directory) -> None:
    """What was pushed there is known still when there is a snapshot again."""
    jfk = used["jfk"]
    run(jfk, "UPDATE public.t SET v = 'mine' WHERE id = 1")
    assert deferred.push(jfk).transactions == 1
    snapshots.drop(jfk, "t")
    assert deferred.list_destinations(jfk) == []
    assert deferred.push_all(jfk).reports == ()
    snapshots.create(jfk, "t", master="hq", updatable=True)
    refresh(jfk, "t")
    run(jfk, "UPDATE public.t SET v = 'again' WHERE id = 2")
    assert deferred.push(jfk).transactions == 1
    settle(jfk)
    assert_equal_to_master(jfk)


def test_change_made_meanwhile_is_not_lost(used: Directory, moments: Moments):
    """The master keeps no log for the snapshot any more; a refresh makes up for it."""
    hq, jfk = used["hq"], used["jfk"]
    moments.at(
        "snapshot_drop.after_unregister",
        lambda: run(jfk, "UPDATE public.t SET v = 'mine' WHERE id = 1"),
    )
    with pytest.raises(UndeliveredCalls):
        snapshots.drop(jfk, "t")
    run(hq, "UPDATE public.t SET v = 'theirs' WHERE id = 2")
    settle(jfk)
    assert run(hq, "SELECT v FROM public.t ORDER BY id") == [
        ("mine",),
        ("theirs",),
        ("hq",),
    ]
    assert_equal_to_master(jfk)
    assert _registered(hq) == 1


def test_cascade_that_commits_meanwhile_is_not_lost(
    used: Directory, moments: Moments
) -> None:
    """A foreign key's action writes the base table, and never touches the user view."""
    hq, jfk = used["hq"], used["jfk"]
    run(
        hq,
        "CREATE TABLE public.line (id int PRIMARY KEY, t int REFERENCES public.t"
        " ON DELETE SET NULL)",
        "INSERT INTO public.line VALUES (1, 1)",
    )
    log(hq, "line")
    snapshots.create(jfk, "line", master="hq", updatable=True, group="t")
    refresh(jfk, "t")
    with ThreadPoolExecutor() as pool, user(jfk) as session:

        def delete_parent() -> None:
            session.execute("DELETE FROM public.t WHERE id = 1")
            pool.submit(_commit_when_waited_for, jfk, session)

        moments.at("snapshot_drop.after_unregister", delete_parent)
        with pytest.raises(UndeliveredCalls):
            snapshots.drop(jfk, "line")
    deferred.push(jfk)
    assert run(hq, "SELECT * FROM public.line") == [(1, None)]


def _commit_when_waited_for(jfk: Site, session: Connection[tuple[Any, ...]]) -> None:
    waits = "SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'relation'"
    eventually(lambda: run(jfk, waits), what="the drop to wait")
    session.commit()


def test_drop_gives_way_to_a_long_transaction(
    used: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who keeps the table is waited for, but nobody else has to wait behind us."""
    monkeypatch.setattr(locks, "ATTEMPTS", 300)
    jfk = used["jfk"]
    waiting = (
        "SELECT 1 FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'"
    )
    with ThreadPoolExecutor() as pool, user(jfk) as session, user(jfk) as other:
        session.execute("SELECT * FROM public.t")
        dropped = pool.submit(snapshots.drop, jfk, "t")
        eventually(lambda: run(jfk, waiting), what="the drop to wait")
        other.execute("SET lock_timeout = '60s'")
        other.execute("SELECT * FROM public.t")
        other.rollback()
        assert not dropped.done()
        session.rollback()
        dropped.result()
    assert _registered(used["hq"]) == 0


def _registered(hq: Site) -> int:
    return len(show_snapshot_log(hq, "t").snapshots)
