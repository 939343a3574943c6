"""Many sites of one master: until all show a change, and what that costs.

The master has a server of its own, and all sites share another. Each site has the rows
of a branch; the changes are spread over the branches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from time import perf_counter

import psutil
from sqlalchemy import text

import masters
import snapshots
from benchmarks.pairs import Result, compared
from benchmarks.setting import directory, tidy
from sites import Directory, Site
from sites.configured import Configuration, configure
from snapshots.spark import lean

#: Of how many sites the changes are, and how many these are.
SITES, CHANGED = (2, 10, 30), 10_000

#: Counted rounds; a first one is not.
ROUNDS = 3

_BRANCHES = SITES[-1]

_TABLE = (
    "CREATE TABLE public.orders (id int PRIMARY KEY, branch int, qty int, note text)",
    (
        f"INSERT INTO public.orders SELECT g, g % {_BRANCHES}, g % 50, md5(g::text)"
        " FROM generate_series(1, {rows}) g"
    ),
    "CREATE INDEX ON public.orders (branch)",
    "ANALYZE public.orders",
)
_CHANGE = "UPDATE public.orders SET qty = qty + 1 WHERE branch < :some AND id <= :last"

#: Seconds, and those of processors: of the master, and of all that takes part.
_Taken = tuple[float, float, float]


def run(rows: int) -> list[Result]:
    """One site after the other, all by one call, and without partition columns."""
    with _world(rows) as (hq, sites):
        measure = _Measure(hq, sites)
        results = []
        for count in SITES:
            results += measure.ways(count)
        with_columns = measure.rounds(_BRANCHES, _one_by_one)
        masters.alter_snapshot_log(hq, "orders", partition_columns=[])
        without = measure.rounds(_BRANCHES, _one_by_one)
        name = f"sites: {_BRANCHES} one by one, the master's processor"
        labels = "with partition columns", "without"
        return [*results, _compared(name, labels, 1, (with_columns, without))]


@contextmanager
def _world(rows: int) -> Iterator[tuple[Site, list[Site]]]:
    """The master, and its sites, which are loaded."""
    names = [f"site{number:02}" for number in range(_BRANCHES)]
    with directory("hq") as there, directory(*names, max_connections="300") as here:
        urls = {site.name: site.url for each in (there, here) for site in each.values()}
        with Directory(urls) as both:
            configure(Configuration(directory=both))
            hq, sites = both["hq"], [both[name] for name in names]
            with hq.begin() as connection:
                for statement in _TABLE:
                    connection.execute(text(statement.format(rows=rows)))
            masters.create_snapshot_log(hq, "orders", partition_columns=["branch"])
            for number, site in enumerate(sites):
                where = f"branch = {number}"
                snapshots.create(site, "orders", master="hq", where=where)
            snapshots.refresh_many(sites)
            yield hq, sites


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
            given = {"some": count, "last": CHANGED * _BRANCHES // count}
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
) -> Result:
    values, others = ([taken[figure] for taken in side] for side in rounds)
    return compared(name, *labels, values, others)
