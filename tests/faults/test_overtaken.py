"""A process loses the lock on its work and goes on; another one has done the work.

The lock of a push or refresh goes with its session, which an administrator, a network
or a standby that takes over may end. Whoever had it notices that late, or never.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

import deferred
import snapshots
from deferred.errors import PushInterrupted, PushRunning
from sites import Directory, Site
from sites.errors import SiteUnreachable
from snapshots.differences import comparison
from snapshots.differences.window import Member
from snapshots.errors import PositionMoved, RefreshRunning, StageLost
from snapshots.keys import Keys, Sides
from snapshots.spark.errors import StageFailed
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.let_go import END_LOCKS, WRITING
from tests.linked_table import run
from tests.oracle.moments import at_nth_point
from tests.stories import assert_equal_to_master, refresh

pytestmark = pytest.mark.usefixtures("spark")

#: What may become of either of the two.
KNOWN = (
    *(PositionMoved, RefreshRunning, StageLost, StageFailed, SiteUnreachable),
    *(PushInterrupted, PushRunning, psycopg.OperationalError),
    sa.exc.OperationalError,
)


@prepared_once("hq", "jfk")
def branch(sites: Directory) -> None:
    """Two updatable snapshots at jfk, loaded; a third table that waits for its own."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.p (id int PRIMARY KEY, n int)",
        "CREATE TABLE public.c (id int PRIMARY KEY, p int REFERENCES public.p)",
        "CREATE TABLE public.t (id int PRIMARY KEY, n int)",
        "INSERT INTO public.p SELECT i, 0 FROM generate_series(1, 20) i",
        "INSERT INTO public.t SELECT i, 0 FROM generate_series(1, 20) i",
    )
    log(hq, "p", "c", "t")
    for name in ("p", "c"):
        snapshots.create(jfk, name, master="hq", group="g", updatable=True)
    refresh(jfk, "g")


@pytest.fixture
def other(branch: Directory) -> Iterator[Directory]:
    """The same sites, as another process reaches them."""
    urls = {name: branch[name].url.render_as_string(False) for name in ("hq", "jfk")}
    with Directory(urls) as directory:
        yield directory


def _change(sites: Directory, number: int) -> None:
    """Users count in rows of their own, and add and delete rows with children."""
    new = 1000 + 10 * number
    for site, theirs, id_ in (("hq", "id <= 5", new), ("jfk", "id > 15", new + 1)):
        run(
            sites[site],
            f"UPDATE public.p SET n = n + 1 WHERE id <= 20 AND {theirs}",
            f"INSERT INTO public.p VALUES ({id_}, 0)",
            f"INSERT INTO public.c VALUES ({id_}, {id_})",
            f"DELETE FROM public.c WHERE id = {id_ - 20}",
        )


def _overtaken(sites: Directory, *works: Callable[[Site], Any]) -> None:
    for one in (sites["hq"], sites["jfk"]):
        run(one, END_LOCKS)
    if any(run(sites[name], WRITING) for name in ("hq", "jfk")):
        return
    for work in works:
        with suppress(*KNOWN):
            work(sites["jfk"])


def _refreshes(site: Site) -> None:
    """Push and refresh."""
    snapshots.refresh(site, "g", allow_mass_delete=True)


def _overtake(
    site: Site, again: Directory, number: int, *works: Callable[[Site], Any]
) -> str | None:
    """Push and refresh; return at which point another process did the work."""
    moment = at_nth_point(number, lambda: _overtaken(again, *works))
    with suppress(*KNOWN), moment as reached:
        _refreshes(site)
    _refreshes(site)
    return reached.point


def _numbers(site: Site) -> list[tuple[Any, ...]]:
    """What users have counted; once each, if nothing was lost or came twice."""
    mine = "SELECT DISTINCT n FROM public.p WHERE id <= 5 OR id BETWEEN 16 AND 20"
    return run(site, mine)


def test_another_process_pushes_and_refreshes(
    branch: Directory, other: Directory
) -> None:
    for number in itertools.count(1):
        _change(branch, number)
        point = _overtake(branch["jfk"], other, number, deferred.push, _refreshes)
        assert deferred.list_errors(branch["hq"]) == [], point
        assert_equal_to_master(branch["jfk"])
        assert _numbers(branch["hq"]) == [(number,)], point
        if point is None:
            break
    assert number > 20


def test_another_process_compares_by_executors(
    branch: Directory, other: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = comparison.small_windows

    def small_there(sides: Sides, members: Sequence[Member]) -> list[Keys | None]:
        found = real(sides, members)
        return [None] * len(found) if sides.site.site is branch["jfk"] else found

    monkeypatch.setattr(comparison, "small_windows", small_there)
    run(branch["jfk"], "DELETE FROM public.p WHERE id = 14")  # the logs have keys
    deferred.push(branch["jfk"])
    seen = set[str | None]()
    for number in itertools.count(3):
        run(branch["hq"], "UPDATE public.p SET n = n + 1 WHERE id <= 5")
        point = _overtake(branch["jfk"], other, number, _refreshes)
        assert_equal_to_master(branch["jfk"])
        seen.add(point)
        if point is None:
            break
    assert {"refresh.after_load", "refresh.after_stage"} < seen


def test_another_process_fills_the_snapshot(
    branch: Directory, other: Directory
) -> None:
    hq, jfk = branch["hq"], branch["jfk"]
    for number in itertools.count(1):
        snapshots.create(jfk, "t", master="hq", group="g", updatable=True)
        run(hq, "UPDATE public.t SET n = n + 1")
        point = _overtake(jfk, other, number, _refreshes)
        assert_equal_to_master(jfk)
        assert run(jfk, "SELECT count(*) FROM public.t") == [(20,)], point
        assert run(jfk, "SELECT 1 FROM snaptide.load_range") == []
        snapshots.drop(jfk, "t")
        if point is None:
            break
    assert number > 5
