"""Which tables of a master have a snapshot log, and how far each one reaches back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    TableClause,
    and_,
    cast,
    func,
    literal,
    select,
    tuple_,
)

from masters.catalog import snapshot_log
from masters.errors import NoSnapshotLog
from masters.log import log_function
from sites import QualifiedName, position, triggers
from sites.catalog import SCHEMA
from sites.names import numbered
from sites.prepared import planned_once
from sites.types import NativeType, PgSnapshot, Xid8


def find_log(connection: Connection, table: QualifiedName) -> Row[Any] | None:
    """The catalog row of a table's snapshot log, or None."""
    return connection.execute(
        select(snapshot_log).where(
            snapshot_log.c.table_schema == table.schema,
            snapshot_log.c.table_name == table.name,
        )
    ).one_or_none()


def find_logs(connection: Connection, tables: Sequence[QualifiedName]) -> list[str]:
    """The names of the snapshot logs that these tables have."""
    at = tuple_(snapshot_log.c.table_schema, snapshot_log.c.table_name)
    wanted = [(table.schema, table.name) for table in tables]
    found = select(snapshot_log.c.log_table).where(at.in_(wanted))
    return list(connection.scalars(planned_once(found)))


def rows_of(log_table: str, keys: Sequence[NativeType] = ()) -> TableClause:
    """A snapshot log, for use in statements.

    Parameters:
        keys: the types in which its keys (k1, k2, ...) are looked up.
    """
    named = zip(numbered("k", keys), keys, strict=True)
    return sa.table(
        log_table,
        sa.column("kind", sa.Text),
        sa.column("xid", Xid8()),
        *(sa.column(name, kind) for name, kind in named),
        schema=SCHEMA,
    )


def get_log(connection: Connection, table: QualifiedName) -> Row[Any]:
    """The catalog row of a table's snapshot log.

    Raises:
        NoSnapshotLog: the table has none.
    """
    row = find_log(connection, table)
    if row is None:
        raise NoSnapshotLog(f"Table {table} has no snapshot log.", table=str(table))
    return row


def reaches_back_to(connection: Connection, log: Row[Any], since: str) -> bool:
    """Whether the log holds every change that a position has not seen.

    It does not if the table was dropped and created again, or its triggers are off.
    """
    table = QualifiedName(log.table_schema, log.table_name)
    if not _has_triggers(connection, table, log.log_table):
        return False
    reaching = select(_reaches(since)).where(snapshot_log.c.id == log.id)
    return bool(connection.scalar(reaching))


def reaching_back_to(
    connection: Connection, tables: Sequence[QualifiedName], since: str
) -> dict[QualifiedName, str]:
    """The logs of these tables that hold every change since a position, by table."""
    at = tuple_(snapshot_log.c.table_schema, snapshot_log.c.table_name)
    wanted = [(table.schema, table.name) for table in tables]
    reaching = select(
        snapshot_log.c.table_schema,
        snapshot_log.c.table_name,
        snapshot_log.c.log_table,
    ).where(at.in_(wanted), _reaches(since))
    found = connection.execute(planned_once(reaching))
    logs = {QualifiedName(row[0], row[1]): str(row[2]) for row in found}
    return {
        table: log
        for table, log in logs.items()
        if _has_triggers(connection, table, log)
    }


def _has_triggers(connection: Connection, table: QualifiedName, log: str) -> bool:
    return triggers.are_there(connection, table, log, log_function.EVENTS)


def _reaches(since: str) -> ColumnElement[bool]:
    old = cast(literal(since), PgSnapshot())
    return and_(
        position.visible(snapshot_log.c.created_xid, old),
        func.pg_snapshot_xmin(old) >= snapshot_log.c.horizon,
    )
