"""The final check: compares every snapshot with its defining query at the master."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import sqlalchemy as sa
from psycopg import sql
from sqlalchemy import Connection, Select, select

import deferred
import snapshots
from sites import QualifiedName, Site, names
from sites.transport import literal_text, raw
from snapshots import SnapshotDescription


@dataclass(frozen=True, slots=True)
class Contents:
    """The number and the digest of all rows of a query, in the order of their keys."""

    rows: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One snapshot against its defining query."""

    site: str
    snapshot: str
    here: Contents
    master: Contents

    @property
    def equal(self) -> bool:
        """Whether both have the same number of rows and the same digest."""
        return self.here == self.master


def compare(site: Site) -> list[Comparison]:
    """Compare all snapshots of a site with their masters, row by row."""
    found = []
    for one in snapshots.list_snapshots(site):
        with site.session() as here, site.peer(one.master).session() as master:
            found.append(
                Comparison(
                    site=site.name,
                    snapshot=one.name,
                    here=contents(here, _present(one)),
                    master=contents(master, _defining(one)),
                )
            )
    return found


def contents(connection: Connection, query: Select[tuple[object, ...]]) -> Contents:
    """Count and digest the rows of a query as COPY prints them, without parsing."""
    digest, rows = hashlib.sha256(), 0
    out = sql.SQL("COPY ({}) TO STDOUT").format(sql.SQL(literal_text(query)))
    with raw(connection).cursor() as cursor, cursor.copy(out) as blocks:
        for block in blocks:
            digest.update(block)
            rows += bytes(block).count(b"\n")
    return Contents(rows=rows, digest=digest.hexdigest())


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


def _present(one: SnapshotDescription) -> Select[tuple[object, ...]]:
    return _ordered(one, names.parse(one.name))


def _defining(one: SnapshotDescription) -> Select[tuple[object, ...]]:
    query = _ordered(one, names.parse(one.table))
    return query if one.condition is None else query.where(sa.text(one.condition))


def _ordered(
    one: SnapshotDescription, table: QualifiedName
) -> Select[tuple[object, ...]]:
    columns: list[sa.ColumnClause[object]] = [sa.column(name) for name in one.columns]
    source = sa.table(table.name, *columns, schema=table.schema)
    query = select(*(source.c[name] for name in one.columns))
    return query.order_by(*(source.c[name] for name in one.identity))
