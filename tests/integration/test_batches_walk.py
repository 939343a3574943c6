"""A walk at random through pushes that die, late commits, purges: each counts once."""

from __future__ import annotations

import random
from contextlib import suppress
from datetime import timedelta
from typing import Any

import psycopg
import pytest

import deferred
from deferred.batches import cut, whole_window
from deferred.queues import delivery_rows, refresh_coverage
from sites import Directory, Site
from tests import seeds
from tests.fix_moments import Moments
from tests.linked_table import (
    application,
    as_refresh,
    link,
    parked,
    queued,
    rows,
    run,
    run_each,
)

STEPS = 45

#: Where a push dies.
POINTS = (
    "push.before_cut_commit",
    "push.after_cut",
    "push.before_lay_commit",
    "push.after_plan",
    "push.after_group_ship",
    "push.before_ship_commit",
    "push.after_ship",
    "push.before_apply",
    "push.after_apply",
    "push.before_commit",
    "push.after_commit",
    "push.before_mark",
)
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"group_max_calls": 1},
    {"group_max_calls": 3},
    {"parallelism": 2},
    {"transaction_count": 2},
)
TWICE = (
    "SELECT xid FROM snaptide.delivery GROUP BY destination, xid HAVING count(*) > 1"
)
LEFT = (
    "SELECT (SELECT count(*) FROM snaptide.delivery),"
    " (SELECT count(*) FROM snaptide.deferred_transaction)"
)


class Dead(BaseException):
    """A push that died."""


class Walk:
    """The steps that a walk may take; each is a method."""

    def __init__(self, sites: Directory, moments: Moments, seed: int) -> None:
        self._hq, self._jfk = sites["hq"], sites["jfk"]
        self._moments, self._draw = moments, random.Random(seed)
        #: by the row that it has changed, a transaction that is open
        self._open: dict[int, psycopg.Connection[tuple[Any, ...]]] = {}

    def change(self) -> None:
        one = "UPDATE orders SET qty = qty + 1 WHERE id = {}"
        ids = (self._draw.randint(1, 7) for _ in range(self._draw.randint(1, 7)))
        run_each(self._jfk, *map(one.format, ids))

    def change_two(self) -> None:
        run(self._jfk, "UPDATE orders SET qty = qty + 1 WHERE id IN (2, 3)")

    def begin(self) -> None:
        for id_ in {8, 9} - self._open.keys():
            self._open[id_] = application(self._jfk)
            change = "UPDATE orders SET qty = qty + 10 WHERE id = %s"
            self._open[id_].execute(change, [id_])
            return

    def end(self) -> None:
        if self._open:
            session = self._open.pop(self._draw.choice(sorted(self._open)))
            if self._draw.random() < 0.8:
                session.commit()
            session.close()

    def push(self) -> None:
        deferred.push(self._jfk, **self._draw.choice(OPTIONS))

    def die(self) -> None:
        point = self._draw.choice(POINTS)
        self._moments.at(point, _die)
        with suppress(Dead):
            deferred.push(self._jfk, **self._draw.choice(OPTIONS[:4]))
        self._moments.at(point, lambda: None)

    def write_rows(self) -> None:
        with self._jfk.transaction() as connection:
            delivery_rows.write_rows(connection, "hq")

    def purge(self) -> None:
        if self._draw.random() < 0.7:
            _cover(self._hq, self._jfk)
        _purge(self._jfk)

    def take(self) -> str:
        """Take a step; return its name."""
        most = [self.change] * 5 + [self.push] * 3 + [self.die] * 5
        others = [self.change_two, self.begin, self.end, self.write_rows, self.purge]
        step = self._draw.choice([*most, *others, *others])
        step()
        return step.__name__

    def come_home(self) -> None:
        while self._open:
            self.end()
        while queued(self._jfk) or deferred.push(self._jfk).transactions:
            deferred.push(self._jfk)


@pytest.mark.parametrize("nth", range(4))
def test_each_transaction_counts_once(
    sites: Directory, moments: Moments, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    """With batches of few or many, whose transactions have rows or have none."""
    seed = seeds.seed("SNAPTIDE_WALK_SEED") + nth
    draw = random.Random(seed)
    monkeypatch.setattr(whole_window, "MANY", draw.choice([1, 2, 3, 5]))
    monkeypatch.setattr(cut, "BATCH_CALLS", draw.choice([4, 20, 50_000]))
    link(sites)
    hq, jfk = sites["hq"], sites["jfk"]
    for site in (hq, jfk):
        start = "INSERT INTO orders SELECT g, 'n' || g, 0 FROM generate_series(1, 9) g"
        as_refresh(site, start)
    walk, taken = Walk(sites, moments, seed), list[str]()
    for _ in range(STEPS):
        taken.append(walk.take())
        assert run(jfk, TWICE) == [], (seed, taken)
    walk.come_home()
    assert rows(hq) == rows(jfk), (seed, taken)
    assert parked(hq) == []
    _cover(hq, jfk)
    _purge(jfk)
    assert run(jfk, LEFT) == [(0, 0)], (seed, taken)


def _cover(hq: Site, jfk: Site) -> None:
    """Note that a refresh has seen what the master has answered."""
    for place in run(hq, "SELECT batch_no, order_no FROM snaptide.push_marker"):
        with jfk.transaction() as connection:
            refresh_coverage.cover(connection, ["orders"], *place)


def _purge(jfk: Site) -> None:
    deferred.purge(jfk, retention=timedelta(0), fold_after=timedelta(days=9))


def _die() -> None:
    raise Dead
