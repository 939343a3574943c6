"""Fast refresh: against a bare Spark diff, and against the databases' share alone."""

from __future__ import annotations

import itertools
import time

import masters
import snapshots
from benchmarks import by_hand
from benchmarks.pairs import Against, Result, Side, alternate
from benchmarks.setting import create_orders, directory, tidy, warm
from benchmarks.spark_floor import Floor
from sites import Directory

#: Changed rows, and the most that a refresh of them takes, in seconds, in a worker that
#: has been up a minute.
FEW = (100, 0.120)

#: Changed rows, and the bar against the databases alone.
MANY = ((10_000, 2.0), (100_000, 1.4))

#: A refresh with nothing to do, in seconds.
IDLE = 0.020

#: Refreshes before: a server plans a statement anew for the first five times.
WARM = 20


def run(rows: int) -> list[Result]:
    """A warm session; changes scattered over the table, a tenth of them deletes."""
    with directory("hq", "jfk") as sites:
        _prepare(sites, rows)
        changes = itertools.count(1)
        results = _idle(sites)
        warm()
        results += _few(sites, rows, changes)
        for changed, bar in MANY:
            if changed < rows:
                results += _many(sites, rows, changed, bar, changes)
        return results


def _prepare(sites: Directory, rows: int) -> None:
    with sites["hq"].begin() as connection:
        create_orders(connection, rows)
    for site in sites.values():
        with site.begin() as connection:
            create_orders(connection, rows, "bare")
    masters.create_snapshot_log(sites["hq"], "orders")
    snapshots.create(sites["jfk"], "orders", master="hq")
    snapshots.refresh(sites["jfk"], "orders")
    by_hand.prepare(sites)


def _idle(sites: Directory) -> list[Result]:
    """Against a pause as long as the bar: a ratio like the others.

    A warm session has asked before, over each of its connections.
    """
    _tidy(sites)
    for _ in range(WARM):
        _refresh(sites)
    refresh = Side(label="fast refresh", run=lambda: _refresh(sites))
    return alternate(
        "refresh: nothing changed",
        refresh,
        Against(side=_pause(IDLE), bar=1.0),
        rounds=15,
    )


def _pause(seconds: float) -> Side:
    return Side(label=f"{seconds * 1000:.0f} ms", run=lambda: time.sleep(seconds))


def _few(sites: Directory, rows: int, changes: itertools.count[int]) -> list[Result]:
    changed, most = FEW
    floor = Floor(changed)
    return alternate(
        f"refresh: {changed:,} of {rows:,} rows",
        _measured(sites, rows, changed, changes),
        Against(side=_pause(most), bar=1.0),
        Against(side=Side(label="bare Spark diff", run=floor.run)),
        Against(side=_limit(sites, rows, changed, changes)),
        rounds=7,
    )


def _many(
    sites: Directory, rows: int, changed: int, bar: float, changes: itertools.count[int]
) -> list[Result]:
    return alternate(
        f"refresh: {changed:,} of {rows:,} rows",
        _measured(sites, rows, changed, changes),
        Against(side=_limit(sites, rows, changed, changes), bar=bar),
        rounds=7,
    )


def _measured(
    sites: Directory, rows: int, changed: int, changes: itertools.count[int]
) -> Side:
    def before() -> None:
        by_hand.change(sites["hq"], "orders", rows, changed, next(changes))
        _tidy(sites)

    return Side(label="fast refresh, warm", run=lambda: _refresh(sites), before=before)


def _limit(
    sites: Directory, rows: int, changed: int, changes: itertools.count[int]
) -> Side:
    def before() -> None:
        by_hand.change(sites["hq"], "bare", rows, changed, next(changes))
        _tidy(sites)

    return Side(
        label="databases alone", run=lambda: by_hand.refresh(sites), before=before
    )


def _refresh(sites: Directory) -> None:
    snapshots.refresh(sites["jfk"], "orders")


def _tidy(sites: Directory) -> None:
    masters.purge_snapshot_logs(sites["hq"])
    tidy(sites["hq"], "public.orders", "public.bare")
    tidy(sites["jfk"], 'public."snap$_orders"', "public.bare")
