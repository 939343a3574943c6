"""Checks that types and collations are the same at a snapshot and at its master."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import UUID

from sqlalchemy import Connection, text

from masters.log import site_ddl
from sites import Site
from sites.conditions.ranges import leaves
from sites.conditions.subqueries import Subquery
from sites.errors import SnaptideError
from sites.names import QualifiedName, identifier
from sites.sessions import identity
from sites.tables import lossy
from sites.tables.definitions import differing, other_versions, type_definitions
from sites.tables.table import Table, describe
from snapshots.definitions import old_columns, refresh_group, rewrites, snapshot
from snapshots.definitions.snapshot import Snapshot
from snapshots.errors import ColumnChanged
from snaptide.asking import asking
from snaptide.doctor import partitions
from snaptide.doctor.finding import Finding, error, info, warning


def check(connection: Connection, site: Site) -> Iterator[Finding]:
    """Findings about columns, types and collations that differ between two sites."""
    me, by_master = identity.read(connection).site_id, dict[str, list[Snapshot]]()
    for one in snapshot.all_of(connection):
        group = refresh_group.find(connection, one.refresh_group)
        assert group is not None
        by_master.setdefault(group.master, []).append(one)
    for master, held in by_master.items():
        try:
            with asking(site.peer(master)) as home:
                for one in held:
                    yield from _of_snapshot(connection, home, site.name, one, me)
                    yield from partitions.check(home, site.name, master, one)
                    yield from _asked(connection, home, site.name, master, one)
        except SnaptideError:
            # Another check reports a master or a table that is away.
            continue


def _of_snapshot(
    connection: Connection, home: Connection, site: str, one: Snapshot, me: UUID
) -> Iterator[Finding]:
    followed = {(id_, one.master) for id_ in one.ddl_followed}
    if any(ddl.table == one.master for ddl in site_ddl.read(home, me, followed)):
        yield info(
            site,
            one.key,
            f"snaptide ddl has changed columns of {one.master}: the next refresh has "
            "the snapshot follow.",
            f"snaptide refresh {site} {one.refresh_group}",
        )
        return
    table = describe(home, one.master)
    base = describe(connection, one.base)
    here = type_definitions(connection, base, one.columns)
    there = type_definitions(home, table, one.columns)
    if not rewrites.has_same_columns(one, table):
        table, _ = old_columns.with_old(home, connection, one, table, base)
    if gone := [name for name in one.columns if name not in table.names]:
        yield error(
            site,
            one.key,
            f"{one.master} no longer has the column {', '.join(gone)}: pushes and "
            "refreshes stop.",
            f"snaptide site diff {site} says what became of it, and what to run.",
        )
    else:
        yield from _rewritten(home, site, one, table, base)
        yield from _narrower(site, one, table, base)
    for what in differing(there, here):
        yield error(
            site,
            one.key,
            f"{what}: one side may refuse values of the other.",
            "Alter it at one of the two until both are the same.",
        )
    for what in other_versions(there, here):
        yield warning(
            site,
            one.key,
            f"{what}: the two may sort texts differently, and a condition may be "
            "true there and false here.",
            "Install the same version of the collation library on both servers.",
        )


def _narrower(site: str, one: Snapshot, table: Table, base: Table) -> Iterator[Finding]:
    """Findings about columns that may round or cut values of the other side."""
    # Another check reports a column that the site has lost.
    for name in (name for name in one.columns if name in base.names):
        there, here = table.column(name), base.column(name)
        if one.updatable and there.generated and not here.generated:
            yield error(
                site,
                one.key,
                f"{one.master}.{name} is generated at the master, but not here: "
                "transactions that give it a value are parked there.",
                "Push, drop the snapshot and create it again.",
            )
        if there.type == here.type:
            continue
        ends = []
        if not lossy.holds(here.recorded, there.recorded):
            ends.append("refreshes stop")
        if one.updatable and not lossy.holds(there.recorded, here.recorded):
            ends.append("changes whose values it would round or cut are parked")
        if ends:
            yield error(
                site,
                one.key,
                f"{one.master}.{name} is {there.type} at the master, but "
                f"{here.type} here: {', and '.join(ends)}.",
                f"Give it the type {here.type} at the master; or push, drop the "
                "snapshot and create it again.",
            )


def _rewritten(
    home: Connection, site: str, one: Snapshot, table: Table, base: Table
) -> Iterator[Finding]:
    """Findings about DDL on the master table since the last refresh."""
    if one.master_columns is None or not one.loaded:
        return
    try:
        rewrites.refuse_generated_otherwise(one, table, base)
    except ColumnChanged as other:
        yield error(site, one.key, f"{other.message} Refreshes stop.", other.hint)
    files = {oid: leaf.file for oid, leaf in leaves(home, one.master).items()}
    columns = {column.name: column.state for column in table.columns}
    if reason := rewrites.why_rewritten(one, columns, files):
        yield warning(
            site,
            one.key,
            f"DDL has changed {one.master} since the last refresh: {reason}. The "
            "next refresh compares all rows.",
            f"snaptide refresh {site} {one.refresh_group}",
        )


_IS_INDEXED = text("""
SELECT c.oid IS NULL OR EXISTS (
    SELECT FROM pg_index i
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
    WHERE i.indrelid = c.oid AND i.indisvalid AND i.indpred IS NULL
      AND a.attname = ANY (CAST(:columns AS text[]))
)
FROM (SELECT to_regclass(:name)::oid AS oid) c
""")


def _asked(
    connection: Connection, home: Connection, site: str, master: str, one: Snapshot
) -> Iterator[Finding]:
    """Findings about foreign keys that a snapshot follows, and that have no index.

    Parameters:
        connection, home: to the site and to its master.
    """
    asks = one.parts.subqueries
    for table, columns in dict.fromkeys(_followed(one.master, asks)):
        yield from _without_index(home, master, table, columns, one)
    for ask in asks:
        yield from _without_index(connection, site, one.base, ask.columns, one)


def _followed(
    table: QualifiedName, asks: Sequence[Subquery]
) -> Iterator[tuple[QualifiedName, tuple[str, ...]]]:
    for one in asks:
        yield table, one.columns
        yield from _followed(one.table, one.subqueries)


def _without_index(
    connection: Connection,
    site: str,
    table: QualifiedName,
    columns: tuple[str, ...],
    one: Snapshot,
) -> Iterator[Finding]:
    name = identifier(table).as_string()
    if connection.scalar(_IS_INDEXED, {"name": name, "columns": [*columns]}):
        return
    quoted = ", ".join(f'"{column}"' for column in columns)
    yield warning(
        site,
        str(table),
        f"It has no index on {', '.join(columns)}, by which the condition of snapshot "
        f"{one.key} finds its parents: refreshes read the whole table to find the rows "
        "below a parent that changed.",
        f"At {site}: CREATE INDEX CONCURRENTLY ON {name} ({quoted})",
    )
