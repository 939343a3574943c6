"""What is left to do at the end of the demo: nothing."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Connection, select

import deferred
import snapshots
from sites import Site, names


def left_over(sites: list[Site], master: Site) -> list[str]:
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
