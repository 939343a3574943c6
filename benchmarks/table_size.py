"""The same change in a small and in a large table: cost follows the change."""

from __future__ import annotations

import itertools

import masters
import snapshots
from benchmarks import by_hand
from benchmarks.pairs import Against, Result, Side, alternate
from benchmarks.setting import create_orders, directory, tidy
from sites import Directory

CHANGED = 10_000

#: How many times as many rows the large table has.
LARGER = 4


def run(rows: int) -> list[Result]:
    """A refresh of 10,000 changed rows, of a quarter of the rows and of all."""
    sizes = {"small": rows // LARGER, "large": rows}
    with directory("hq", "jfk") as sites:
        for name, size in sizes.items():
            _create(sites, name, size)
        by_hand.prepare_changes(sites)
        seeds = itertools.count(1)
        small, large = (_side(sites, name, sizes[name], seeds) for name in sizes)
        return alternate(
            f"refresh: {CHANGED:,} rows changed",
            large,
            Against(side=small, bar=1.15),
            rounds=9,
        )


def _create(sites: Directory, name: str, rows: int) -> None:
    with sites["hq"].begin() as connection:
        create_orders(connection, rows, name)
    masters.create_snapshot_log(sites["hq"], name)
    snapshots.create(sites["jfk"], name, master="hq")
    snapshots.refresh(sites["jfk"], name)


def _side(sites: Directory, name: str, rows: int, seeds: itertools.count[int]) -> Side:
    def before() -> None:
        by_hand.change(sites["hq"], name, rows, CHANGED, next(seeds))
        masters.purge_snapshot_logs(sites["hq"])
        tidy(sites["hq"], f"public.{name}")
        tidy(sites["jfk"], f'public."snap$_{name}"')

    return Side(
        label=f"in a table of {rows:,}",
        run=lambda: snapshots.refresh(sites["jfk"], name),
        before=before,
    )
