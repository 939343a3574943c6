"""Many sites of one master: until all show a change, and what that costs.

The master has a server of its own, and all sites share another. Each site has the rows
of a branch; so many changes are spread over the branches, however many these are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from time import perf_counter, sleep

import psutil
from sqlalchemy import text

import masters
import snapshots
from benchmarks.cloned_sites import cloned
from benchmarks.pairs import Result, compared
from benchmarks.setting import tidy
from sites import Site
from snapshots.spark import lean

#: Of how many sites the changes are (`make bench ONLY=sites SITES=10,100,1000`).
SITES = tuple(map(int, os.environ.get("SNAPTIDE_BENCH_SITES", "10,30,100").split(",")))

#: How many rows are changed, over all sites.
CHANGED = 3_000

#: Up to so many sites are refreshed one after the other, too.
FEW = 30

#: A server rests that takes no more of a processor in so many seconds than these.
QUIET = 0.1

#: Counted rounds; a first one is not.
ROUNDS = 3

#: The master's work may grow so much from the last but one of `SITES` to the last, and
#: that of a site from the first to the last.
MASTER, SITE = 1.2, 1.1

_CHANGE = "UPDATE public.orders SET qty = qty + 1 WHERE branch < :some AND id <= :last"

#: Seconds, and those of processors: of the master, and of all that takes part.
_Taken = tuple[float, float, float]


def run(rows: int) -> list[Result]:
    """All by one call and one after the other, of more sites, and without columns."""
    with cloned(SITES[-1], rows) as (hq, sites):
        measure = _Measure(hq, sites)
        few = min(FEW, SITES[-1])
        results = measure.ways(few)
        results += _growth({n: measure.rounds(n, _together) for n in SITES})
        with_columns = measure.rounds(few, _one_by_one)
        masters.alter_snapshot_log(hq, "orders", partition_columns=[])
        without = measure.rounds(few, _one_by_one)
        name = f"sites: {few} one by one, the master's processor"
        labels = "with partition columns", "without"
        return [*results, _compared(name, labels, 1, (with_columns, without))]


def _growth(by_count: Mapping[int, Sequence[_Taken]]) -> list[Result]:
    """What the same changes cost when they are of more sites."""
    each = {
        count: [((every - master) / count, 0.0, 0.0) for _, master, every in rounds]
        for count, rounds in by_count.items()
    }
    first, *_, fewer, many = (SITES[0], *SITES)
    return [
        _grown("until the last shows it", by_count, 0, (many, fewer), None),
        _grown("the master's processor", by_count, 1, (many, fewer), MASTER),
        _grown("the processor of a site", each, 0, (many, first), SITE),
    ]


def _grown(
    what: str,
    by_count: Mapping[int, Sequence[_Taken]],
    figure: int,
    counts: tuple[int, int],
    bar: float | None,
) -> Result:
    many, few = counts
    sides = by_count[many], by_count[few]
    labels = f"{many} sites", f"{few} sites"
    return _compared(f"sites: {CHANGED:,} changes, {what}", labels, figure, sides, bar)


def _one_by_one(sites: Sequence[Site]) -> None:
    for site in sites:
        snapshots.refresh(site, "orders")


def _together(sites: Sequence[Site]) -> None:
    for one in snapshots.refresh_many(sites):
        assert one.report, one


class _Measure:
    """Changes rows of some sites, has these refreshed, and sees what it takes."""

    def __init__(self, hq: Site, sites: Sequence[Site]) -> None:
        self._hq, self._sites = hq, sites
        self._master, self._other = _server(hq), _server(sites[0])

    def ways(self, count: int) -> list[Result]:
        """By one call against one after the other."""
        pairs = [self._pair(count) for _ in range(ROUNDS + 1)][1:]
        together, one_by_one = zip(*pairs, strict=True)
        labels = "refresh_many", "one by one"
        return [
            _compared(f"sites: {count}, {what}", labels, n, (together, one_by_one))
            for n, what in enumerate(
                ("until the last shows it", "the master's processor", "all processors")
            )
        ]

    def rounds(self, count: int, way: Callable[[Sequence[Site]], None]) -> list[_Taken]:
        """One way alone, round by round."""
        return [self._taken(count, way) for _ in range(ROUNDS + 1)][1:]

    def _pair(self, count: int) -> tuple[_Taken, _Taken]:
        return self._taken(count, _together), self._taken(count, _one_by_one)

    def _taken(self, count: int, way: Callable[[Sequence[Site]], None]) -> _Taken:
        with self._hq.begin() as connection:
            given = {"some": count, "last": CHANGED * SITES[-1] // count}
            connection.execute(text(_CHANGE), given)
        tidy(self._hq, "public.orders", 'snaptide."mlog$_orders"')
        master, others = _used(self._master), self._others()
        began = perf_counter()
        way(self._sites[:count])
        seconds = perf_counter() - began
        master = _used(self._master) - master
        return seconds, master, master + self._others() - others

    def _others(self) -> float:
        """Of the sites, of this process, and of Spark."""
        mine = map(_own, (psutil.Process(), *lean.runtimes()))
        return _used(self._other) + sum(mine)


def _server(site: Site) -> psutil.Process:
    """The first process of a server, the parent of its sessions."""
    with site.session() as connection:
        session = psutil.Process(connection.scalar(text("SELECT pg_backend_pid()")))
    found = session.parent()
    assert found is not None
    return found


def _used(server: psutil.Process) -> float:
    """Seconds of processor of a server, with sessions that have ended."""
    before, used = -1.0, _used_now(server)
    while used - before > QUIET or used < before:
        sleep(QUIET)
        before, used = used, _used_now(server)
    return used


def _used_now(server: psutil.Process) -> float:
    """The same, without sessions that are ending now: no one counts these."""
    ended = server.cpu_times()
    children = sum(map(_own, server.children()))
    return float(ended.children_user + ended.children_system + children)


def _own(process: psutil.Process) -> float:
    with suppress(psutil.NoSuchProcess):
        used = process.cpu_times()
        return float(used.user + used.system)
    return 0.0


def _compared(
    name: str,
    labels: tuple[str, str],
    figure: int,
    rounds: tuple[Sequence[_Taken], Sequence[_Taken]],
    bar: float | None = None,
) -> Result:
    values, others = ([taken[figure] for taken in side] for side in rounds)
    return compared(name, *labels, values, others, bar=bar)
