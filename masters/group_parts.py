"""Which partitions a group's table has at a master, and since when.

ATTACH brings rows to a table, and DETACH takes rows away. No trigger fires for that, so
the other masters do not get them. Each master keeps the partitions that its tables had
when the masters were last known to have the same rows. While there are others, or one
of them was detached and attached again, rows may differ (`groups.differences`).

PostgreSQL writes a partition into `pg_inherits` when it is attached: the transaction
that wrote it tells two attachments from each other.

While a trigger of ours is missing or off, rows may change unseen. Then `?` takes the
place of that transaction, so that the part is another one when the trigger is back. If
the rows are not known to be equal then, `!` is kept for the part.
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
from sites.sessions.exchange import raw

#: By oid, each table that a table consists of, and the transaction that attached it.
Parts = Mapping[str, str]
_UNSEEN, _MISSED = "?", "!"

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
           jsonb_object_agg(p.oid, p.attached) AS attached,
           jsonb_object_agg(
               p.oid, CASE WHEN t.there THEN p.attached ELSE '?' END) AS now,
           jsonb_object_agg(p.oid, jsonb_build_array(n.nspname, c.relname)) AS names
    FROM part p JOIN pg_class c ON c.oid = p.oid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN snaptide.queue q ON q.group_id IS NOT NULL
      AND q.base_schema = p.table_schema AND q.base_table = p.table_name,
    LATERAL (
        -- A queue has three triggers, and each master but an unprotected one a guard.
        SELECT COALESCE(bool_or(g.tgname = 'snaptide_guard'), false)
           AND (q.id IS NULL OR count(*) FILTER (WHERE f.proname = q.queue_table) = 3)
               AS there
        FROM pg_trigger g JOIN pg_proc f ON f.oid = g.tgfoid
        WHERE g.tgrelid = p.oid AND g.tgenabled = 'A'
          AND f.pronamespace = 'snaptide'::regnamespace
    ) t
    GROUP BY 1, 2, 3, 4
    """)
    .columns(
        sa.column("table_schema", sa.Text),
        sa.column("table_name", sa.Text),
        sa.column("group_id", sa.Uuid),
        *(sa.column(name, JSONB) for name in ("known", "attached", "now", "names")),
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
    #: the same, whatever has become of their triggers
    attached: Parts
    #: what has happened; None if no row can have come or gone with it
    why: str | None
    #: what to keep until the rows are found equal, so that it is not forgotten when
    #: the triggers are back; None if it is kept
    missed: Parts | None
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

    The tables get their triggers afterwards.

    Parameters:
        before: tables that had other parts already, which stay to be compared.
    """
    doubtful = {one.table for one in before}
    for one in others(connection, group_id):
        if one.table not in doubtful:
            equal = {p: at for p, at in one.attached.items() if p not in one.came}
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
    came = {
        oid: _why(name, known.get(oid), now[oid])
        for oid, name in names.items()
        if now[oid] != known.get(oid) and (oid in known or _has_rows(connection, name))
    }
    missed = {
        oid: _MISSED
        for oid in came
        if now[oid] == _UNSEEN and known.get(oid, _MISSED) != _MISSED
    }
    gone = [_gone(connection, oid) for oid in known.keys() - now.keys()]
    return OtherParts(
        table=QualifiedName(row.table_schema, row.table_name),
        parts=now,
        attached=row.attached,
        missed=known | missed if missed else None,
        why="; ".join(sorted([*came.values(), *gone])) or None,
        came=frozenset(came),
    )


def _why(part: QualifiedName, known: str | None, now: str) -> str:
    if known is None:
        return f"{part} was attached with rows, or has got some since"
    if now == _UNSEEN:
        return f"a trigger of Snaptide on {part} is missing or off"
    if known in (_UNSEEN, _MISSED):
        return f"a trigger of Snaptide on {part} was missing or off"
    return f"{part} was detached and attached again"


def _gone(connection: Connection, oid: str) -> str:
    left = connection.execute(_NAME, {"oid": oid}).one_or_none()
    if left is None:
        return "a partition was dropped"
    return f"{QualifiedName(*left)} was detached"


def _has_rows(connection: Connection, table: QualifiedName) -> bool:
    query = sql.SQL("SELECT FROM ONLY {} LIMIT 1").format(identifier(table))
    return raw(connection).execute(query).rowcount > 0
