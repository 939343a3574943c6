"""Step: the first refresh, which is complete, with a progress bar."""

from __future__ import annotations

import time

import sqlalchemy as sa
from sqlalchemy import func, select

import snapshots
from snapshots import RefreshReport
from snapshots.differences import difference
from snaptide.demo.data import TABLES
from snaptide.demo.errors import require
from snaptide.demo.steps.define import GROUP, UPDATABLE
from snaptide.demo.world import World


def tell(world: World) -> None:
    """Fill the snapshots of each airport with the rows of one moment of the master."""
    started = time.monotonic()
    difference.session()
    world.screen.say(f"Spark started in {time.monotonic() - started:.1f} s.")
    expected = {site.name: _expected(world, site.name) for site in world.airports}
    reports = []
    for site in world.airports:
        with world.screen.bar(site.name, expected[site.name]) as bar:
            reports.append(snapshots.refresh(site, GROUP, progress=bar))
    world.screen.table(
        ["site", *TABLES, "rows", "seconds", "rows/s"], [_row(r) for r in reports]
    )
    for report in reports:
        got = sum(one.inserted for one in report.snapshots)
        require(
            got == expected[report.site],
            f"{report.site} has {got:,} rows, not {expected[report.site]:,}.",
        )


def _expected(world: World, site: str) -> int:
    """How many rows the master has for the snapshots of an airport."""
    mine = (sa.column("origin") == site.upper(), sa.true())
    counts = [
        select(func.count())
        .select_from(sa.table(table, schema="public"))
        .where(mine[table not in UPDATABLE])
        for table in TABLES
    ]
    with world.hq.begin() as connection:
        return sum(connection.execute(count).scalar_one() for count in counts)


def _row(report: RefreshReport) -> list[object]:
    rows = {one.name: one.inserted for one in report.snapshots}
    total = sum(rows.values())
    return [
        report.site,
        *(rows[table] for table in TABLES),
        total,
        report.seconds,
        round(total / report.seconds),
    ]
