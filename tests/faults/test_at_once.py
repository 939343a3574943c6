"""At each moment of a push or refresh, everything else is asked for as well."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from datetime import timedelta

import pytest

import deferred
import masters
import snapshots
from sites import Directory, Site
from snapshots.errors import RefreshRunning, UndeliveredCalls
from tests.campaign.verbs import VERBS
from tests.fix_moments import Moments
from tests.fix_sites import log, rows, run
from tests.linked_table import parked
from tests.stories import assert_equal_to_master, column_groups, refresh, settle

pytestmark = pytest.mark.usefixtures("spark")

SUM = "SELECT sum(n)::int FROM public.t"
ROWS = 10

#: What waits for the push or refresh is left to go on after it.
SECONDS = 1.5


@pytest.fixture
def counters(sites: Directory) -> Directory:
    """An updatable snapshot of numbers that add up: what comes twice would show."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.t (id int PRIMARY KEY, n int NOT NULL)",
        f"INSERT INTO public.t SELECT i, 0 FROM generate_series(1, {ROWS}) i",
    )
    log(hq, "t")
    column_groups(hq, "t", {"n": "additive"})
    snapshots.create(jfk, "t", master="hq", updatable=True)
    refresh(jfk, "t")
    return sites


class Crowd:
    """Asks for everything at once, and counts what has to add up."""

    def __init__(self, sites: Directory) -> None:
        self.hq, self.jfk = sites["hq"], sites["jfk"]
        self.counted = 0
        self._pool = ThreadPoolExecutor()
        self._asked: list[Future[object]] = []

    def count_up(self, site: Site) -> None:
        """One more in every row, as a user."""
        run(site, "UPDATE public.t SET n = n + 1")
        self.counted += 1

    def come(self) -> None:
        """Ask for everything; go on when it is done, or waits for what is done here."""
        asked = [self._pool.submit(verb) for verb in self._verbs()]
        wait(asked, timeout=SECONDS)
        self._asked += asked

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
        yield self._drop

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
    assert rows(crowd.hq, SUM) == [(crowd.counted * ROWS,)]
