"""Events of a row that a master knows: conflicts, errors, and its snapshot log."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row, Text, cast, func, or_, select
from sqlalchemy.types import DateTime

from deferred.error_catalog import error_call, error_transaction
from deferred.parked import present_names
from deferred.row_history.events import Event, Wanted, operation
from masters.catalog import resolution_record
from sites.catalog import SCHEMA
from sites.transfer.types import NativeType


def settled(connection: Connection, site: str, wanted: Wanted) -> list[Event]:
    """Conflicts of a row that rules settled."""
    record = resolution_record.c
    images = (record.row_key, record.old_values, record.new_values)
    rows = connection.execute(
        select(resolution_record).where(
            record.table_schema == wanted.table.schema,
            record.table_name == wanted.table.name,
            or_(*(wanted.found_in(one) for one in images)),
        )
    )
    return [
        Event(
            at=row.resolved_at,
            site=site,
            kind="settled",
            operation=_resolved_operation(row),
            origin=row.origin,
            transaction=row.origin_transaction,
            old=row.old_values,
            new=row.new_values,
            current=row.current_values,
            result=row.result_values,
            conflict=f"{row.kind} {row.reference}".strip(),
            method=row.method,
            decision=row.decision,
            reason=row.reason,
            number=row.id,
        )
        for row in rows
    ]


def parked(connection: Connection, site: str, wanted: Wanted) -> list[Event]:
    """Changes of a row that stand in the error queue, by the columns' present names."""
    call, error = error_call.c, error_transaction.c
    found = connection.execute(
        select(
            *(error[name] for name in ("id", "parked_at", "origin", "origin_user")),
            *(error[name] for name in ("origin_transaction", "error_message")),
            error.target_columns,
            *(call[name] for name in ("kind", "conflict", "call_no")),
            *(call[name] for name in ("old_values", "new_values", "current_values")),
        )
        .join_from(error_call, error_transaction, error.id == call.error_id)
        .where(
            call.target_schema == wanted.table.schema,
            call.target_table == wanted.table.name,
            or_(wanted.found_in(call.old_values), wanted.found_in(call.new_values)),
        )
    ).all()
    known = [present_names.of(connection, row.target_columns) for row in found]
    return [
        Event(
            at=row.parked_at,
            site=site,
            kind="parked",
            operation=operation(row.kind),
            origin=row.origin,
            transaction=row.origin_transaction,
            user=row.origin_user,
            old=present.image(wanted.table, row.old_values),
            new=present.image(wanted.table, row.new_values),
            current=present.image(wanted.table, row.current_values),
            conflict=row.conflict,
            reason=row.error_message,
            number=row.id,
        )
        for row, present in zip(found, known, strict=True)
    ]


def logged(
    connection: Connection, site: str, log: Row[Any], wanted: Wanted
) -> list[Event]:
    """Changes that the snapshot log still holds, by users there or applied by pushes.

    The log holds keys, not images; the time of a transaction is known only if the
    server keeps it (track_commit_timestamp).
    """
    keys = {name: f"k{n}" for n, name in enumerate(log.identity_columns, 1)}
    if any(column.name not in keys for column in wanted.columns):
        return []  # the log identifies rows by ROWID
    entry = sa.table(
        log.log_table,
        *map(sa.column, ("kind", "xid", *keys.values())),
        schema=SCHEMA,
    )
    kind, xid = cast(entry.c.kind, Text), cast(entry.c.xid, Text)
    rows = connection.execute(
        select(kind.label("kind"), xid.label("xid"), _committed(connection, entry))
        .where(kind.in_(tuple("IUD")), wanted.found(lambda name: entry.c[keys[name]]))
        .order_by(entry.c.xid)
    )
    return [
        Event(
            at=row.at,
            site=site,
            kind="logged",
            operation=operation(row.kind),
            origin=site,
            transaction=row.xid,
        )
        for row in rows
    ]


def _committed(connection: Connection, entry: sa.TableClause) -> Any:
    known = connection.scalar(select(func.current_setting("track_commit_timestamp")))
    if known != "on":
        return cast(sa.null(), DateTime(timezone=True)).label("at")
    xid = cast(entry.c.xid, NativeType("xid"))
    return func.pg_xact_commit_timestamp(xid).label("at")


def _resolved_operation(row: Row[Any]) -> str:
    if row.old_values is None:
        return "insert"
    return "delete" if row.new_values is None else "update"
