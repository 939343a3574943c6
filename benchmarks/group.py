"""A refresh group of many snapshots against one snapshot with all the changes."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import masters
import snapshots
from benchmarks import by_hand
from benchmarks.pairs import Against, Result, Side, alternate
from benchmarks.setting import create_orders, directory, far_master, tidy, warm
from sites import Directory, Site

MEMBERS = 20

#: Changed rows of the group: an equal share in each of its snapshots.
CHANGED = 200


def run(rows: int) -> list[Result]:
    """Snapshots that share the rows, and one of all of them; the master near, and far.

    Far away, each round trip to the master takes 5 ms.
    """
    parts = [f"part{n}" for n in range(MEMBERS)]
    with directory("hq", "jfk") as sites, far_master(sites) as far:
        _create(sites, dict.fromkeys(parts, rows // MEMBERS), "parts")
        _create(sites, {"whole": rows}, "whole")
        by_hand.prepare_changes(sites)
        warm()
        seeds = itertools.count(1)

        def change(tables: list[str]) -> None:
            _change(sites, tables, rows, next(seeds))

        changed = f"refresh: {CHANGED:,} of {rows:,} rows"
        return [
            *_measured(changed, sites["jfk"], parts, change),
            *_measured(f"{changed}, answers after 5 ms", far["jfk"], parts, change),
        ]


def _measured(
    name: str, site: Site, parts: list[str], change: Callable[[list[str]], None]
) -> list[Result]:
    return alternate(
        name,
        Side(
            label=f"a group of {MEMBERS} snapshots",
            run=lambda: snapshots.refresh(site, "parts"),
            before=lambda: change(parts),
        ),
        Against(
            side=Side(
                label="one snapshot",
                run=lambda: snapshots.refresh(site, "whole"),
                before=lambda: change(["whole"]),
            ),
            bar=1.5,
        ),
        rounds=7,
    )


def _create(sites: Directory, tables: dict[str, int], group: str) -> None:
    for name, rows in tables.items():
        with sites["hq"].begin() as connection:
            create_orders(connection, rows, name)
        masters.create_snapshot_log(sites["hq"], name)
        snapshots.create(sites["jfk"], name, master="hq", group=group)
    snapshots.refresh(sites["jfk"], group)


def _change(sites: Directory, tables: list[str], rows: int, seed: int) -> None:
    share = len(tables)
    for name in tables:
        by_hand.change(sites["hq"], name, rows // share, CHANGED // share, seed)
    masters.purge_snapshot_logs(sites["hq"])
    tidy(sites["hq"], *(f"public.{name}" for name in tables))
    tidy(sites["jfk"], *(f'public."snap$_{name}"' for name in tables))
