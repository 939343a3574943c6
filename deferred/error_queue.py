"""The error queue at the master: whole transactions that could not be applied."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row, and_, func, or_, select

from deferred.call import Call, entries
from deferred.catalog import error_call, error_footprint, error_transaction
from deferred.errors import NoSuchError
from sites import QualifiedName, Site, identity
from sites.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Parked:
    """A transaction to be parked: who made it, and why it could not be applied."""

    origin_id: uuid.UUID
    origin: str
    origin_transaction: str
    origin_user: str
    batch_no: int
    order_no: int
    start_time: datetime
    #: conflict, error or dependant
    reason: str
    error_code: str
    error_message: str
    #: error transactions that have to be settled first
    waits_for: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorCall:
    """One call of a parked transaction."""

    call_no: int
    table: str
    kind: str
    identity_columns: tuple[str, ...]
    old: Mapping[str, str | None] | None
    new: Mapping[str, str | None] | None
    #: the master's row when the transaction was parked
    current: Mapping[str, str | None] | None
    conflict: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorTransaction:
    """A parked transaction as people look at it."""

    id: int
    origin: str
    origin_transaction: str
    origin_user: str
    order_no: int
    start_time: datetime | None
    parked_at: datetime
    reason: str
    error_code: str
    error_message: str
    waits_for: tuple[int, ...]
    #: empty in lists
    calls: tuple[ErrorCall, ...] = ()


def park(
    connection: Connection,
    facts: Parked,
    calls: Sequence[tuple[Table, Call]],
    conflicts: Mapping[int, str],
) -> int:
    """Store a transaction with all its calls; for its origin it is delivered.

    Parameters:
        calls: with the table that each is about.
        conflicts: call number -> what no rule settled.

    Returns:
        The number by which people name it.
    """
    values = {name: getattr(facts, name) for name in facts.__slots__}
    values["waits_for"] = list(facts.waits_for)
    error_id: int = connection.execute(
        sa.insert(error_transaction).values(values).returning(error_transaction.c.id)
    ).scalar_one()
    if calls:
        connection.execute(
            sa.insert(error_call),
            [_call_values(error_id, call, conflicts) for _, call in calls],
        )
        _write_footprint(connection, error_id, facts.origin_id, calls)
    return error_id


def list_errors(site: Site, origin: str | None = None) -> list[ErrorTransaction]:
    """Parked transactions of a master, in the order in which they were made."""
    wanted = select(error_transaction).order_by("origin", "batch_no", "order_no")
    if origin is not None:
        wanted = wanted.where(error_transaction.c.origin == origin)
    with site.begin() as connection:
        identity.read(connection)
        return [_transaction(row) for row in connection.execute(wanted)]


def show_error(site: Site, error_id: int) -> ErrorTransaction:
    """One parked transaction with old, new and current image of each call.

    Raises:
        NoSuchError: it was retried or deleted, or never was.
    """
    with site.begin() as connection:
        identity.read(connection)
        row = get(connection, error_id)
        calls = connection.execute(
            select(error_call)
            .where(error_call.c.error_id == error_id)
            .order_by("call_no")
        )
        return _transaction(row, tuple(_call(call) for call in calls))


def delete_errors(
    site: Site, error_ids: Sequence[int] | None = None, *, origin: str | None = None
) -> int:
    """Give parked transactions up for good (Oracle: DELETE_ERROR).

    The next refresh of the origin shows the master's rows instead.

    Parameters:
        error_ids: which ones; None means all.
        origin: only those of this site.

    Raises:
        NoSuchError: an id is not there.
    """
    statement = sa.delete(error_transaction)
    if error_ids is not None:
        statement = statement.where(error_transaction.c.id.in_(error_ids))
    if origin is not None:
        statement = statement.where(error_transaction.c.origin == origin)
    with site.begin() as connection:
        identity.read(connection)
        for error_id in error_ids or ():
            get(connection, error_id)
        return connection.execute(statement).rowcount


def get(connection: Connection, error_id: int) -> Row[Any]:
    """The catalog row of a parked transaction.

    Raises:
        NoSuchError: there is none of that number.
    """
    row = connection.execute(
        select(error_transaction).where(error_transaction.c.id == error_id)
    ).one_or_none()
    if row is None:
        raise NoSuchError(
            f"There is no error transaction {error_id}.", error_id=error_id
        )
    return row


def parked(
    connection: Connection,
    origin_id: uuid.UUID,
    tables: Sequence[QualifiedName] | None = None,
) -> int:
    """How many transactions of an origin are parked that touch some tables, or any."""
    wanted = select(func.count()).where(error_transaction.c.origin_id == origin_id)
    if tables is not None:
        touching = select(error_call.c.error_id).where(
            or_(
                sa.false(),
                *(
                    and_(
                        error_call.c.target_schema == table.schema,
                        error_call.c.target_table == table.name,
                    )
                    for table in tables
                ),
            )
        )
        wanted = wanted.where(error_transaction.c.id.in_(touching))
    return connection.scalar(wanted) or 0


def related(
    connection: Connection, origin_id: uuid.UUID, calls: Sequence[tuple[Table, Call]]
) -> dict[int, set[str]]:
    """Parked transactions that share a row, unique value or foreign key with calls.

    Returns:
        Error id -> how it is related: "refers to it" means that a parked call
        refers to a row of these calls.
    """
    mine: dict[str, set[bool]] = {}
    for table, call in calls:
        for entry, refers in entries(table, call):
            mine.setdefault(_digest(entry), set()).add(refers)
    if not mine:
        return {}
    rows = connection.execute(
        select(
            error_footprint.c.error_id,
            error_footprint.c.entry,
            error_footprint.c.refers,
        )
        .where(error_footprint.c.origin_id == origin_id)
        .where(error_footprint.c.entry.in_(mine))
    )
    found: dict[int, set[str]] = {}
    for row in rows:
        # Two references to one parent do not meet.
        if not row.refers or False in mine[row.entry]:
            how = "is referred to" if row.refers else "shares"
            found.setdefault(row.error_id, set()).add(how)
    return found


def calls_of(connection: Connection, error_ids: Sequence[int]) -> list[Call]:
    """The calls of parked transactions."""
    rows = connection.execute(
        select(error_call)
        .where(error_call.c.error_id.in_(error_ids))
        .order_by("call_no")
    )
    return [
        Call(
            call_no=row.call_no,
            target=QualifiedName(row.target_schema, row.target_table),
            kind=row.kind,
            identity=tuple(row.identity_columns),
            old=row.old_values,
            new=row.new_values,
            current=row.current_values,
        )
        for row in rows
    ]


def references_of(
    connection: Connection,
    error_ids: Sequence[int],
    calls: Sequence[tuple[Table, Call]],
) -> bool:
    """Whether one of the calls deletes a row that a parked transaction refers to."""
    gone = {
        _digest(entry)
        for table, call in calls
        if call.kind == "D"
        for entry, refers in entries(table, call)
        if not refers
    }
    wanted = select(error_footprint.c.entry).where(
        error_footprint.c.error_id.in_(error_ids),
        error_footprint.c.refers,
        error_footprint.c.entry.in_(gone),
    )
    return bool(gone) and connection.scalar(wanted.limit(1)) is not None


def _write_footprint(
    connection: Connection,
    error_id: int,
    origin_id: uuid.UUID,
    calls: Sequence[tuple[Table, Call]],
) -> None:
    rows = {
        (_digest(entry), refers)
        for table, call in calls
        for entry, refers in entries(table, call)
    }
    connection.execute(
        sa.insert(error_footprint),
        [
            {
                "error_id": error_id,
                "origin_id": origin_id,
                "entry": entry,
                "refers": refers,
            }
            for entry, refers in rows
        ],
    )


def _digest(entry: tuple[str, ...]) -> str:
    return hashlib.sha256(json.dumps(entry).encode()).hexdigest()


def _call_values(
    error_id: int, call: Call, conflicts: Mapping[int, str]
) -> dict[str, Any]:
    return {
        "error_id": error_id,
        "call_no": call.call_no,
        "target_schema": call.target.schema,
        "target_table": call.target.name,
        "kind": call.kind,
        "identity_columns": list(call.identity),
        "old_values": call.old,
        "new_values": call.new,
        "current_values": call.current,
        "conflict": conflicts.get(call.call_no),
    }


def _transaction(row: Row[Any], calls: tuple[ErrorCall, ...] = ()) -> ErrorTransaction:
    names = [n for n in ErrorTransaction.__slots__ if n not in ("calls", "waits_for")]
    return ErrorTransaction(
        **{name: getattr(row, name) for name in names},
        waits_for=tuple(row.waits_for),
        calls=calls,
    )


def _call(row: Row[Any]) -> ErrorCall:
    return ErrorCall(
        call_no=row.call_no,
        table=str(QualifiedName(row.target_schema, row.target_table)),
        kind=row.kind,
        identity_columns=tuple(row.identity_columns),
        old=row.old_values,
        new=row.new_values,
        current=row.current_values,
        conflict=row.conflict,
    )
