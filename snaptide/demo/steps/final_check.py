"""Step: refreshes once more, then compares every snapshot with its master."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Connection, select

import deferred
import snapshots
from sites import Site, names
from snaptide.demo.errors import require
from snaptide.demo.steps.fast_refresh import refresh_all
from snaptide.demo.world import World


def tell(world: World) -> None:
    """Show that every snapshot equals its defining query, and all work is settled."""
    refresh_all(world)
    reports = [snapshots.check(site) for site in world.airports]
    compared = [(report.site, one) for report in reports for one in report.snapshots]
    world.screen.say("")
    world.screen.table(
        ["site", "snapshot", "rows", "rows at hq", "equal"],
        [
            (site, one.name, one.rows_here, one.rows_master, one.equal)
            for site, one in compared
        ],
    )
    different = [f"{site}:{one.name}" for site, one in compared if not one.equal]
    require(not different, f"Different from hq: {', '.join(different)}.")
    left = _left_over(world.airports, world.hq)
    require(not left, f"Not settled: {'; '.join(left)}.")
    world.screen.say("All equal. Nothing is queued, held back or parked.")


def _left_over(sites: list[Site], master: Site) -> list[str]:
    """Describe unsettled work: calls, keys for a next refresh, parked transactions."""
    found = [
        f"{site.name}: {count} rows in {view}"
        for site in sites
        for view, count in _unsettled(site)
        if count
    ]
    parked = len(deferred.list_errors(master))
    return found + ([f"{parked} parked at {master.name}"] if parked else [])


def _unsettled(site: Site) -> list[tuple[str, int]]:
    kept = [names.parse(one.name) for one in snapshots.list_snapshots(site)]
    views = ["deftrandest", *(names.derived("uslog$_", name) for name in kept)]
    with site.session() as connection:
        return [(view, _count(connection, view)) for view in views]


def _count(connection: Connection, view: str) -> int:
    rows = select(sa.func.count()).select_from(sa.table(view, schema="snaptide"))
    return connection.scalar(rows) or 0
