"""At each moment of a push or refresh, everything else is asked for as well."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta

import pytest

import deferred
import masters
import snapshots
from sites import Directory, Site
from snapshots.definitions.errors import UndeliveredCalls
from snapshots.errors import RefreshRunning
from tests.campaign.verbs import VERBS
from tests.fix_moments import Moments
from tests.fix_worlds import prepared_once
from tests.linked_table import parked, run
from tests.stories import adding_up, assert_equal_to_master, refresh, settle

pytestmark = pytest.mark.usefixtures("spark")

SUM = "SELECT sum(n)::int FROM public.t"
ROWS = 10

#: Seconds after which what is neither done nor waits for a lock is left to go on.
SECONDS = 1.5

#: The sessions that wait for others.
WAITING = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


@prepared_once("hq", "jfk")
def counters(sites: Directory) -> None:
    """An updatable snapshot of numbers that add up: what comes twice would show."""
    adding_up(sites["hq"], sites["jfk"], ROWS)


class Crowd:
    """Asks for everything at once, and counts what has to add up."""

    def __init__(self, sites: Directory) -> None:
        self.hq, self.jfk = sites["hq"], sites["jfk"]
        self.counted = 0
        self._pool = ThreadPoolExecutor(32)
        self._asked: list[Future[object]] = []

    def count_up(self, site: Site) -> None:
        """One more in every row, as a user."""
        run(site, "UPDATE public.t SET n = n + 1")
        self.counted += 1

    def come(self) -> None:
        """Ask for everything; go on when it is done, or waits for what is done here."""
        dropping: Future[object] = self._pool.submit(self._drop)
        self._asked += [dropping, *map(self._pool.submit, self._verbs())]
        # It is refused because of what is at work here.
        dropping.result(timeout=200)
        until = time.monotonic() + SECONDS
        while self._going() > self._waiting() and time.monotonic() < until:
            time.sleep(0.02)

    def _going(self) -> int:
        return sum(not one.done() for one in self._asked)

    def _waiting(self) -> int:
        return sum(int(str(run(s, WAITING)[0][0])) for s in (self.hq, self.jfk))

    def end(self) -> None:
        """Wait for the last one; none of them may have failed."""
        for one in self._asked:
            one.result(timeout=200)
        self._pool.shutdown()

    def _verbs(self) -> Iterator[Callable[[], object]]:
        yield lambda: self.count_up(self.jfk)
        yield lambda: self.count_up(self.hq)
        yield lambda: deferred.push(self.jfk)
        yield self._refresh
        yield self._purge

    def _refresh(self) -> None:
        with suppress(RefreshRunning):
            refresh(self.jfk, "t")

    def _purge(self) -> None:
        deferred.purge(self.jfk, retention=timedelta(0), fold_after=timedelta(0))
        masters.purge_snapshot_logs(self.hq)

    def _drop(self) -> None:
        with pytest.raises((RefreshRunning, UndeliveredCalls)):
            snapshots.drop(self.jfk, "t")


def test_during_a_push(counters: Directory, moments: Moments) -> None:
    crowd = Crowd(counters)
    for point in VERBS["push one by one"].points:
        crowd.count_up(crowd.jfk)
        moments.at(point, crowd.come)
        deferred.push(crowd.jfk, group_max_calls=0)
        assert point in moments.reached
    _assert_counted_once(crowd)


def test_during_a_refresh(counters: Directory, moments: Moments) -> None:
    crowd = Crowd(counters)
    for point in VERBS["refresh"].points:
        for site in (crowd.hq, crowd.jfk):
            crowd.count_up(site)
        moments.at(point, crowd.come)
        refresh(crowd.jfk, "t")
        assert point in moments.reached
    _assert_counted_once(crowd)


def _assert_counted_once(crowd: Crowd) -> None:
    crowd.end()
    settle(crowd.jfk)
    assert parked(crowd.hq) == []
    assert_equal_to_master(crowd.jfk)
    assert run(crowd.hq, SUM) == [(crowd.counted * ROWS,)]
