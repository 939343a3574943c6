"""Checks that the rows below a parent can be found by an index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, text

from sites.conditions.subqueries import Subquery
from sites.names import QualifiedName, identifier
from snapshots.definitions.snapshot import Snapshot
from snaptide.doctor.finding import Finding, warning

_IS_INDEXED = text("""
SELECT c.oid IS NULL OR EXISTS (
    SELECT FROM pg_index i
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
    WHERE i.indrelid = c.oid AND i.indisvalid AND i.indpred IS NULL
      AND a.attname = ANY (CAST(:columns AS text[]))
)
FROM (SELECT to_regclass(:name)::oid AS oid) c
""")


def check(
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
