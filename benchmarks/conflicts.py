"""What conflicts cost in a push: against the same push without any."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import text

import deferred
import masters
from benchmarks.pairs import Against, Result, Side, alternate, compared
from benchmarks.push import link
from benchmarks.setting import create_orders, directory, tidy
from masters.apply import alike
from masters.rules import rulebook
from sites import Directory

#: Half of the conflicts are won by the site, half by the master.
BOOK = {
    "tables": {
        "orders": {
            "groups": {"all": ["qty", "note", "updated_at"]},
            "update": [
                {
                    "group": "all",
                    "method": "latest_timestamp",
                    "parameters": {"column": "updated_at"},
                }
            ],
        }
    }
}

#: How many times as many conflicts memory is compared with.
MORE = 4

#: As a refresh says which table it writes.
_WRITING = (
    "SELECT set_config('snaptide.writing', 'public.orders'::regclass::oid::text, true)"
)


def run(rows: int) -> list[Result]:
    """One transaction in which every row is in conflict: time, and memory."""
    with _linked(rows * MORE) as sites:
        times = alternate(
            f"push: one transaction of {rows:,} updates",
            Side(
                label="each a conflict, settled by a rule",
                run=lambda: _push(sites, rows),
                before=lambda: _change(sites, rows, conflicts=True),
            ),
            Against(
                side=Side(
                    label="no conflict",
                    run=lambda: _push(sites, 0),
                    before=lambda: _change(sites, rows, conflicts=False),
                ),
                bar=2.0,
            ),
        )
    # Two chunks are held while the second is read.
    full = max(rows, 2 * alike.MANY)
    with _linked(full * MORE) as sites:
        return [*times, _memory(sites, full)]


@contextmanager
def _linked(rows: int) -> Iterator[Directory]:
    """A master with the rule, and a site with the rows and a queue."""
    with directory("hq", "jfk") as sites:
        for site in sites.values():
            with site.begin() as connection:
                create_orders(connection, rows)
        masters.create_snapshot_log(sites["hq"], "orders")
        link(sites)
        rulebook.apply(sites["hq"], BOOK)
        yield sites


def _memory(sites: Directory, rows: int) -> Result:
    peaks: dict[int, list[float]] = {rows: [], rows * MORE: []}
    for many in [rows, rows * MORE] * 2:  # the first round fills caches
        _change(sites, many, conflicts=True)
        tracemalloc.start()
        _push(sites, many)
        peaks[many].append(tracemalloc.get_traced_memory()[1] / 2**20)
        tracemalloc.stop()
    return compared(
        "push: peak memory of Python",
        f"{rows * MORE:,} conflicts",
        f"{rows:,} conflicts",
        peaks[rows * MORE][1:],
        peaks[rows][1:],
        bar=1.5,
        unit="MB",
    )


def _push(sites: Directory, conflicts: int) -> None:
    report = deferred.push(sites["jfk"])
    assert (report.errors, report.conflicts_resolved) == (0, conflicts)


def _change(sites: Directory, rows: int, *, conflicts: bool) -> None:
    """Both sites hold the same, then the site changes rows, perhaps the master too.

    The master's rows have stamps of their own, as if they had been changed one by one.
    """
    same = "UPDATE public.orders SET qty = 0, note = 'same', updated_at = '2026-01-01'"
    theirs = (
        "UPDATE public.orders SET qty = 1, note = 'theirs',"
        " updated_at = now() + (id % 2 * 2 - 1) * interval '1 day'"
        " + id * interval '1 second' WHERE id <= :rows"
    )
    mine = (
        "UPDATE public.orders SET qty = 2, note = 'mine', updated_at = now()"
        " WHERE id <= :rows"
    )
    for site in sites.values():
        with site.begin() as connection:
            connection.execute(text("SET LOCAL snaptide.origin = 'elsewhere'"))
            connection.execute(text(_WRITING))
            connection.execute(text(same))
            if conflicts and site.name == "hq":
                connection.execute(text(theirs), {"rows": rows})
    with sites["jfk"].begin() as connection:
        connection.execute(text(mine), {"rows": rows})
    masters.purge_snapshot_logs(sites["hq"])
    for site in sites.values():
        tidy(site, "public.orders")
