"""Snapshots are altered while a refresh runs that has lost its lock, and the other way.

The lock of a group's refreshes goes with its session, which an administrator, a network
or a standby that takes over may end. Whoever had it notices that late, or never.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
import sqlalchemy as sa

import snapshots
from sites import Directory, Site
from sites.errors import SnaptideError
from snapshots.definitions import refresh_group
from snapshots.errors import PositionMoved
from tests.fix_moments import Moments
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.let_go import END_LOCKS
from tests.linked_table import run, scalar
from tests.stories import assert_equal_to_master, refresh

pytestmark = pytest.mark.usefixtures("spark")


@prepared_once("hq", "jfk")
def branch(sites: Directory) -> None:
    """Two snapshots at jfk, of which t has ten of twenty rows and lacks a column."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.s (id int PRIMARY KEY, n int)",
        "CREATE TABLE public.t (id int PRIMARY KEY, n int, x int)",
        "INSERT INTO public.s VALUES (1, 0)",
        "INSERT INTO public.t SELECT i, 0, 0 FROM generate_series(1, 20) i",
    )
    log(hq, "s", "t")
    snapshots.create(jfk, "s", master="hq", group="g")
    _create(jfk)
    refresh(jfk, "g")


@pytest.fixture
def other(branch: Directory) -> Iterator[Site]:
    """The branch, as another process reaches it."""
    urls = {name: branch[name].url.render_as_string(False) for name in ("hq", "jfk")}
    with Directory(urls) as directory:
        yield directory["jfk"]


def _create(site: Site) -> None:
    snapshots.create(
        site,
        "t",
        master="hq",
        group="g",
        where="id <= 10",
        columns=["id", "n"],
        updatable=True,
    )


def _other_rows(site: Site) -> None:
    snapshots.alter_condition(site, "t", where="id > 5")


def _another_column(site: Site) -> None:
    snapshots.alter_columns(site, "t", add=["x"])


def _made_anew(site: Site) -> None:
    snapshots.drop(site, "t")
    _create(site)


def _end_locks(*sites: Site) -> None:
    for one in sites:
        run(one, END_LOCKS)


def _meanwhile(branch: Directory, act: Callable[[], None]) -> Callable[[], None]:
    def acts() -> None:
        _end_locks(branch["hq"], branch["jfk"])
        act()

    return acts


@pytest.mark.parametrize("point", ["refresh.after_register", "refresh.after_stage"])
@pytest.mark.parametrize("alter", [_other_rows, _another_column, _made_anew])
def test_another_process_alters_what_is_refreshed(
    branch: Directory,
    other: Site,
    moments: Moments,
    alter: Callable[[Site], None],
    point: str,
) -> None:
    hq, jfk = branch["hq"], branch["jfk"]

    def altered() -> None:
        alter(other)
        run(hq, "UPDATE public.t SET x = 7 WHERE id = 7")

    run(hq, "UPDATE public.s SET n = n + 1")
    moments.at(point, _meanwhile(branch, altered))
    with suppress(SnaptideError, sa.exc.DBAPIError):
        snapshots.refresh(jfk, "g")
    refresh(jfk, "g")
    assert_equal_to_master(jfk)
    assert scalar(jfk, "SELECT count(*) FROM public.t") > 0


def test_another_process_refreshes_while_a_column_is_filled(
    branch: Directory, other: Site, moments: Moments
) -> None:
    hq, jfk = branch["hq"], branch["jfk"]

    def refreshed() -> None:
        run(hq, "UPDATE public.t SET x = 7 WHERE id = 7")
        refresh(other, "g")

    moments.at("snapshot_alter.filling", _meanwhile(branch, refreshed))
    with pytest.raises(PositionMoved):
        _another_column(jfk)
    refresh(jfk, "g")
    assert_equal_to_master(jfk)
    _another_column(jfk)
    refresh(jfk, "g")
    assert_equal_to_master(jfk)
    assert run(jfk, "SELECT x FROM public.t WHERE id = 7") == [(7,)]


@pytest.mark.parametrize("point", ["before_unregister", "after_unregister"])
def test_another_process_refreshes_what_is_dropped(
    branch: Directory, other: Site, moments: Moments, point: str
) -> None:
    hq, jfk = branch["hq"], branch["jfk"]

    def refreshed() -> None:
        run(hq, "UPDATE public.t SET n = 7 WHERE id = 7")
        refresh(other, "g")

    moments.at(f"snapshot_drop.{point}", _meanwhile(branch, refreshed))
    with pytest.raises(PositionMoved):
        snapshots.drop(jfk, "t")
    refresh(jfk, "g")
    assert_equal_to_master(jfk)
    snapshots.drop(jfk, "t")
    known = "SELECT snapshot FROM snaptide.registered_snapshot"
    assert run(hq, known) == [("s",)]


def _created(site: Site) -> None:
    run(site.peer("hq"), "CREATE TABLE public.new (id int PRIMARY KEY)")
    log(site.peer("hq"), "new")
    snapshots.create(site, "new", master="hq", group="g")


def _dropped(site: Site) -> None:
    snapshots.drop(site, "t")


@pytest.mark.parametrize(
    ("point", "alter"),
    [
        ("snapshot_alter.filling", _another_column),
        ("snapshot_drop.after_unregister", _dropped),
    ],
)
def test_a_snapshot_that_is_created_meanwhile_stops_no_other(
    branch: Directory,
    other: Site,
    moments: Moments,
    point: str,
    alter: Callable[[Site], None],
) -> None:
    """Else what has been filled for hours would be lost to it."""
    jfk = branch["jfk"]
    moments.at(point, lambda: _created(other))
    alter(jfk)
    refresh(jfk, "g")
    assert_equal_to_master(jfk)


def test_a_refresh_waits_for_who_creates_a_snapshot(
    branch: Directory, moments: Moments
) -> None:
    """Longer than for rows of users: else all its work would be lost."""
    hq, jfk = branch["hq"], branch["jfk"]
    run(hq, "UPDATE public.s SET n = n + 1")
    with jfk.session() as creating:
        group = refresh_group.find(creating, "g")
        assert group is not None
        creating.rollback()
        ends = threading.Timer(0.3, creating.commit)

        def creates() -> None:
            assert refresh_group.still_has(creating, "g", group.master_id)
            ends.start()

        moments.at("refresh.after_stage", creates)
        refresh(jfk, "g")
        ends.join()
    assert_equal_to_master(jfk)


def test_another_process_registers_what_is_registered_anew(
    branch: Directory, other: Site, moments: Moments
) -> None:
    """The master forgets a snapshot where what its site may read has changed.

    A change that the log has lost stands for a grant, which no log tells.
    """
    hq, jfk = branch["hq"], branch["jfk"]
    forget = "DELETE FROM snaptide.registered_snapshot WHERE snapshot = 't'"

    class Ended(Exception):
        """The other process ends before it has compared any row."""

    def ends() -> None:
        raise Ended

    def registered() -> None:
        run(hq, forget, "UPDATE public.t SET n = 7 WHERE id = 7")
        run(hq, 'DELETE FROM snaptide."mlog$_t"')
        moments.at("refresh.after_register", ends)
        with pytest.raises(Ended):
            snapshots.refresh(other, "g")

    run(hq, forget)
    moments.at("refresh.after_stage", _meanwhile(branch, registered))
    with suppress(SnaptideError, sa.exc.DBAPIError):
        snapshots.refresh(jfk, "g")
    refresh(jfk, "g")
    assert_equal_to_master(jfk)
