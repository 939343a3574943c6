"""Which partitions a group's table has at a master, and since when.

ATTACH brings rows to a table, and DETACH takes rows away. No trigger fires for that, so
the other masters do not get them. Each master keeps the partitions that its tables had
when the masters were last known to have the same rows. While there are others, or one
of them was detached and attached again, rows may differ (`groups.differences`).

PostgreSQL writes a partition into `pg_inherits` when it is attached: the transaction
that wrote it tells two attachments from each other.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from psycopg import sql
from sqlalchemy import Connection, Row
from sqlalchemy.dialects.postgresql import JSONB

from masters.catalog import group_schema
from sites import QualifiedName
from sites.names import identifier
from sites.transport import raw

#: By oid, each table that a table consists of, and the transaction that attached it.
Parts = Mapping[str, str]

#: For each table of groups, the parts that are known, those of now, and their names.
_PARTS = (
    sa.text("""
    WITH RECURSIVE part AS (
        SELECT g.table_schema, g.table_name, g.group_id, g.parts AS known,
               c.oid, '' AS attached
        FROM snaptide.group_schema g
        JOIN pg_namespace n ON n.nspname = g.table_schema
        JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = g.table_name
      UNION ALL
        SELECT p.table_schema, p.table_name, p.group_id, p.known,
               i.inhrelid, i.xmin::text
        FROM part p JOIN pg_inherits i ON i.inhparent = p.oid AND NOT i.inhdetachpending
    )
    SELECT p.table_schema, p.table_name, p.group_id, p.known,
           jsonb_object_agg(p.oid, p.attached) AS now,
           jsonb_object_agg(p.oid, jsonb_build_array(n.nspname, c.relname)) AS names
    FROM part p JOIN pg_class c ON c.oid = p.oid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    GROUP BY 1, 2, 3, 4
    """)
    .columns(
        sa.column("table_schema", sa.Text),
        sa.column("table_name", sa.Text),
        sa.column("group_id", sa.Uuid),
        *(sa.column(name, JSONB) for name in ("known", "now", "names")),
    )
    .subquery("present")
)

_NAME = sa.text(
    "SELECT n.nspname, c.relname FROM pg_class c"
    " JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE c.oid = CAST(:oid AS oid)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherParts:
    """A table whose partitions are no longer those that the master has kept."""

    table: QualifiedName
    #: how it has them now
    parts: Parts
    #: what has happened; None if no row can have come or gone with it
    why: str | None
    #: those among them whose rows may not be at the other masters
    came: frozenset[str]
    #: any row of the table may differ
    key: None = None


def note_first(connection: Connection) -> None:
    """Keep the present parts of tables that have just come to a group."""
    at, present = group_schema.c, _PARTS.c
    connection.execute(
        sa.update(group_schema)
        .where(
            at.table_schema == present.table_schema,
            at.table_name == present.table_name,
            at.parts.is_(None),
        )
        .values(parts=present.now)
    )


def others(connection: Connection, group_id: uuid.UUID) -> list[OtherParts]:
    """The tables of a group with other parts than the master has kept."""
    present = _PARTS.c
    found = connection.execute(
        sa.select(_PARTS)
        .where(
            present.group_id == group_id, present.now.is_distinct_from(present.known)
        )
        .order_by(present.table_schema, present.table_name)
    )
    return [_compared(connection, row) for row in found.all()]


def follow_ddl(
    connection: Connection, group_id: uuid.UUID, before: Sequence[OtherParts]
) -> None:
    """Keep the present parts after DDL that all masters run while they are equal.

    Rows that go are gone everywhere, but a part that comes may have others elsewhere.

    Parameters:
        before: tables that had other parts already, which stay to be compared.
    """
    doubtful = {one.table for one in before}
    for one in others(connection, group_id):
        if one.table not in doubtful:
            equal = {p: at for p, at in one.parts.items() if p not in one.came}
            keep(connection, one.table, equal)


def keep(connection: Connection, table: QualifiedName, parts: Parts) -> None:
    """Keep these parts of a table: all masters have the same rows with them."""
    at = group_schema.c
    mine = sa.and_(at.table_schema == table.schema, at.table_name == table.name)
    connection.execute(sa.update(group_schema).where(mine).values(parts=parts))


def _compared(connection: Connection, row: Row[Any]) -> OtherParts:
    known, now = row.known or {}, row.now
    names = {oid: QualifiedName(*name) for oid, name in row.names.items()}
    # A new part without rows is as good as one that was created empty.
    new = {
        oid for oid in now.keys() - known.keys() if _has_rows(connection, names[oid])
    }
    again = {oid for oid in now.keys() & known.keys() if now[oid] != known[oid]}
    told = (
        *(f"{names[oid]} was attached with rows, or has got some since" for oid in new),
        *(f"{names[oid]} was detached and attached again" for oid in again),
        *(_gone(connection, oid) for oid in known.keys() - now.keys()),
    )
    return OtherParts(
        table=QualifiedName(row.table_schema, row.table_name),
        parts=now,
        why="; ".join(sorted(told)) or None,
        came=frozenset(new | again),
    )


def _gone(connection: Connection, oid: str) -> str:
    left = connection.execute(_NAME, {"oid": oid}).one_or_none()
    if left is None:
        return "a partition was dropped"
    return f"{QualifiedName(*left)} was detached"


def _has_rows(connection: Connection, table: QualifiedName) -> bool:
    query = sql.SQL("SELECT FROM ONLY {} LIMIT 1").format(identifier(table))
    return raw(connection).execute(query).rowcount > 0
