"""A check against one pass of sums over both sides, its memory, its longest statement.

The pass of sums is the check's own statement, run by hand at both sides at once: no
check can take less, and all that it takes beyond is Snaptide's and Spark's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from sqlalchemy import text

import masters
import snapshots
from benchmarks import memory
from benchmarks.pairs import Against, Result, Side, alternate, compared
from benchmarks.setting import create_orders, directory, tidy
from sites import Directory, Site
from sites.conditions import ranges
from sites.configured import Configuration, configure
from sites.transfer.transport import literal_text
from snapshots import CheckReport
from snapshots.check import moments
from snapshots.differences import buckets, images

#: Rows that a site has otherwise than its master, scattered over the table.
SCATTERED = 100

#: The most that this process may hold, in MB, and the heap that Spark is given.
DRIVER, HEAP = 400, 2048

#: Seconds that no statement of a gentle check may take, and between two looks.
LONGEST, PACE = 1.0, 0.005

_BASE = 'public."snap$_orders"'


def run(rows: int) -> list[Result]:
    """Both sides are equal, and then a hundred rows are not."""
    with directory("hq", "jfk") as sites:
        _create(sites, rows)
        statements = pass_of_sums(sites)
        check = Side(label="check", run=lambda: _found(sites, 0))
        sums = Side(
            label="sums at both sides", run=lambda: side_by_side(sites, statements)
        )
        equal = alternate(
            f"check: {rows:,} rows, all equal", check, Against(side=sums, bar=1.2)
        )
        _scatter(sites, rows, SCATTERED)
        check = Side(label="check", run=lambda: _found(sites, SCATTERED))
        return equal + alternate(
            f"check: {rows:,} rows, {SCATTERED} of them differ",
            check,
            Against(side=sums, bar=1.5),
        )


def run_memory(rows: int) -> list[Result]:
    """Peaks of a check of many rows: equal, with few that differ, and with many."""
    results = []
    with directory("hq", "jfk") as sites:
        conf = {"spark.driver.memory": f"{HEAP}m"}
        configure(Configuration(directory=sites, spark_conf=conf))
        _create(sites, rows)
        for differ in (0, SCATTERED, rows // 10):
            _scatter(sites, rows, differ)
            peaks = memory.peaks(partial(_found, sites, differ))
            what = f"{rows:,} rows, {differ:,} of them differ"
            for kind, limit in (("driver", DRIVER), ("Spark", HEAP)):
                if kind in peaks:
                    results.append(_peak(kind, what, peaks[kind], limit))
    return results


def run_gently(rows: int) -> list[Result]:
    """The longest statement of a gentle check: equal, with few that differ, and many.

    Those that explain rows have logs to read: as many changes are on their way.
    """
    results = []
    with directory("hq", "jfk") as sites:
        _create(sites, rows)
        for differ in (0, SCATTERED, rows // 10):
            _scatter(sites, rows, differ)
            _change(sites, rows, differ)
            took = _longest_statement(sites, partial(_gently, sites))
            what = f"{rows:,} rows, {differ:,} of them differ"
            name, against = "check --gently: longest statement", f"{LONGEST:g} s"
            results.append(compared(name, what, against, [took], [LONGEST], bar=1.0))
    return results


def _gently(sites: Directory) -> CheckReport:
    return snapshots.check(sites["jfk"], "orders", gently=True)


def _longest_statement(sites: Directory, work: Callable[[], object]) -> float:
    """Seconds of the longest statement at any site, as its server tells them."""
    over = threading.Event()

    def watch(site: Site) -> float:
        took = 0.0
        with site.connect() as connection:
            alone = connection.execution_options(isolation_level="AUTOCOMMIT")
            while not over.wait(PACE):
                took = max(took, alone.scalar(text(_AT_WORK)) or 0.0)
        return took

    with ThreadPoolExecutor(2) as beside:
        watching = [beside.submit(watch, sites[name]) for name in ("hq", "jfk")]
        try:
            work()
        finally:
            over.set()
        return max(one.result() for one in watching)


_AT_WORK = """
SELECT extract(epoch FROM max(clock_timestamp() - query_start))::float
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
  AND state = 'active' AND backend_type = 'client backend'
"""


def _change(sites: Directory, rows: int, changes: int) -> None:
    """Change other rows at the master, and have no refresh bring them."""
    if not changes:
        return
    change = f"UPDATE public.orders SET qty = -2 WHERE id % {rows // changes} = 1"
    with sites["hq"].begin() as connection:
        connection.execute(text(change))


def _peak(kind: str, what: str, peak: float, limit: int) -> Result:
    name, against, bar = f"check: peak memory, {kind}", f"{limit} MB", 1.0
    if kind == "Spark":
        # It holds code, threads and buffers besides: the runtime bounds its heap alone.
        against, bar = f"its heap of {limit} MB", 1.5
    return compared(name, what, against, [peak], [float(limit)], bar=bar, unit="MB")


def _create(sites: Directory, rows: int) -> None:
    with sites["hq"].begin() as connection:
        create_orders(connection, rows)
    masters.create_snapshot_log(sites["hq"], "orders")
    snapshots.create(sites["jfk"], "orders", master="hq")
    snapshots.refresh(sites["jfk"], "orders")
    tidy(sites["hq"], "public.orders")
    tidy(sites["jfk"], _BASE)


def _scatter(sites: Directory, rows: int, differ: int) -> None:
    """Change rows of the site as if its triggers had been off."""
    if not differ:
        return
    change = f"UPDATE {_BASE} SET qty = -1 WHERE id % {rows // differ} = 0"
    with sites["jfk"].begin() as connection:
        connection.execute(text(f"ALTER TABLE {_BASE} DISABLE TRIGGER USER"))
        connection.execute(text(change))
    tidy(sites["jfk"], _BASE)


def _found(sites: Directory, differ: int) -> CheckReport:
    report = snapshots.check(sites["jfk"], "orders")
    assert report.unexplained == differ, report
    [one] = report.snapshots
    assert len(one.differences) == min(differ, report.most), len(one.differences)
    return report


def pass_of_sums(sites: Directory) -> list[tuple[Site, str]]:
    """What a check asks of each side."""
    with moments.held(sites["jfk"], "orders", ["orders"]) as held:
        [member] = held.seen.members
        layout, sides = images.layout(member), held.sides
        there = ranges.ctid_ranges(sides.master.at, member.snapshot.master, parts=1)
        here = ranges.ctid_ranges(sides.site.at, member.snapshot.base, parts=1)
        asked = (
            (sites["hq"], [images.at_master(member, part) for part in there]),
            (sites["jfk"], [images.present(member, part) for part in here]),
        )
        return [
            (site, literal_text(buckets.sums(layout, queries, buckets.BUCKETS)))
            for site, queries in asked
        ]


def side_by_side(sites: Directory, statements: list[tuple[Site, str]]) -> None:
    """Ask both sides at once."""

    def ask(site: Site, statement: str) -> None:
        with site.connect() as connection:
            connection.exec_driver_sql(statement.replace("%", "%%")).all()

    with ThreadPoolExecutor(len(statements)) as beside:
        list(beside.map(lambda one: ask(*one), statements))
