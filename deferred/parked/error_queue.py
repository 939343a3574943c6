"""The error queue at the master: whole transactions that could not be applied."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Row, and_, func, or_, select

from deferred.batches import called, lost_rows
from deferred.batches.called import Argument, ProcedureCall
from deferred.error_catalog import (
    error_call,
    error_footprint,
    error_procedure,
    error_transaction,
)
from deferred.errors import NoSuchError
from deferred.parked import differing, error_dependencies, present_names, rows_now
from deferred.parked.error_dependencies import Edge
from deferred.parked.rows_now import Place
from sites import QualifiedName, Site, names
from sites.sessions import identity
from sites.tables import locks
from sites.writing.staged import selected


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
    #: the master's row now; None if there is none, or the table cannot be read
    now: Mapping[str, str | None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorProcedure:
    """A procedure that a parked transaction calls."""

    call_no: int
    name: str
    arguments: tuple[Argument, ...]
    #: why the transaction was parked, if this call was the reason
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorTransaction:
    """A parked transaction as operators see it."""

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
    #: how many calls it has; None in lists
    call_count: int | None = None
    #: the calls of the requested page; empty in lists
    calls: tuple[ErrorCall, ...] = ()
    #: procedures that it calls, between those; empty in lists
    procedures: tuple[ErrorProcedure, ...] = ()
    #: after which call the next page begins; None if this is the last one
    next_after: int | None = None
    #: the waits between it and other transactions; empty in lists
    edges: tuple[Edge, ...] = ()


def list_errors(
    site: Site, origin: str | None = None, *, reason: str | None = None
) -> list[ErrorTransaction]:
    """Parked transactions of a master, by origin, in the order of its queue.

    Parameters:
        origin: only those of this site.
        reason: only those that are parked for it: conflict, error, dependant, quiet,
            column gone or withdrawn.
    """
    wanted = select(error_transaction).order_by("origin", "batch_no", "order_no")
    wanted = wanted.where(*_matching(origin, reason))
    with identity.initialised(site) as connection:
        return [_transaction(row) for row in connection.execute(wanted)]


def show_error(
    site: Site,
    error_id: int,
    *,
    after: int = 0,
    limit: int | None = None,
    now: bool = True,
) -> ErrorTransaction:
    """One parked transaction with old and new image of each call, and the master's row.

    That row is shown as it was when the transaction was parked, and as it is now.
    Columns have their present names; `(gone)` marks those that the master has dropped,
    `(generated)` those that it computes now.

    Parameters:
        after: only calls with a higher number, for the next page.
        limit: at most so many calls, of rows and of procedures; None is all of them.
        now: read the rows as they are now; without, no table of users is read.

    Raises:
        NoSuchError: it was retried or deleted, or never existed.
    """
    with identity.initialised(site) as connection:
        row = get(connection, error_id)
        count = _count(connection, error_id)
        edges = error_dependencies.around(connection, row.origin_id, error_id)
        found, called, last = _page(connection, error_id, after, limit)
        present = present_names.of(connection, row.target_columns)
        calls = tuple(_call(one, present) for one in found)
        if now:
            calls = _with_rows_now(connection, calls)
    return replace(
        _transaction(row),
        call_count=count,
        calls=calls,
        procedures=tuple(_procedure(one) for one in called),
        next_after=last,
        edges=edges,
    )


def _page(
    connection: Connection, error_id: int, after: int, limit: int | None
) -> tuple[Sequence[Row[Any]], Sequence[Row[Any]], int | None]:
    """Calls of rows and of procedures, and the last of them if more follow."""
    more = None if limit is None else limit + 1
    found, called = (
        connection.execute(
            select(table)
            .where(table.c.error_id == error_id, table.c.call_no > after)
            .order_by("call_no")
            .limit(more)
        ).all()
        for table in (error_call, error_procedure)
    )
    numbers = sorted(one.call_no for one in (*found, *called))
    if limit is None or len(numbers) <= limit:
        return found, called, None
    last = numbers[limit - 1]
    return (
        [one for one in found if one.call_no <= last],
        [one for one in called if one.call_no <= last],
        last,
    )


def delete_errors(
    site: Site,
    error_ids: Sequence[int] | None = None,
    *,
    origin: str | None = None,
    reason: str | None = None,
) -> int:
    """Give parked transactions up for good (Oracle: DELETE_ERROR).

    The next refresh of the origin shows the master's rows instead. Transactions that
    wait for a deleted one can then be retried only by their number, because the rows
    that they refer to may be another site's. Rows of a group that other masters may
    have as the transaction made them are listed until they are equal.

    Parameters:
        error_ids: which ones; None means all.
        origin: only those of this site.
        reason: only those that are parked for it, as for `list_errors`.

    Raises:
        NoSuchError: an id is not there.
    """
    chosen = _matching(origin, reason)
    if error_ids is not None:
        chosen.append(selected(error_transaction, {"id": tuple(error_ids)}))
    with identity.initialised(site) as connection:
        if error_ids is not None:
            there = connection.scalars(select(error_transaction.c.id).where(chosen[-1]))
            for missing in sorted({*error_ids}.difference(there)):
                get(connection, missing)  # says that it is not there
        grouped = differing.of_a_group(error_transaction.c.id).label("grouped")
        gone = select(error_transaction, grouped).where(and_(*chosen)).order_by("id")
        held = connection.execute(gone.with_for_update(of=error_transaction)).all()
        for row in (one for one in held if one.grouped):
            why = f"transaction {row.origin_transaction} of {row.origin} was deleted"
            differing.note_parked(connection, row.id, f"{why} from the error queue")
        lost = "which was given up"
        return remove(connection, and_(*chosen), lost=lost, keep=True)


def _matching(origin: str | None, reason: str | None) -> list[ColumnElement[bool]]:
    """Conditions on `error_transaction`: of a site, and parked for a reason."""
    at = error_transaction.c
    found: list[ColumnElement[bool]] = [sa.true()]
    if origin is not None:
        found.append(at.origin == origin)
    if reason is not None:
        found.append(at.reason == reason)
    return found


def remove(
    connection: Connection,
    which: ColumnElement[bool],
    *,
    lost: str | None = None,
    keep: bool = False,
) -> int:
    """Remove parked transactions with all their rows, and from the waits of others.

    Writes error_transaction, error_call, error_procedure and error_footprint.

    Parameters:
        which: a condition on `error_transaction`.
        lost: why the rows that they made do not exist, as for
            `error_dependencies.release`.
        keep: keep the footprints of rows that they made, for transactions that the site
            sends before it sees the result.

    Returns:
        How many there were.
    """
    if keep:
        kept = select(error_transaction.c.id).where(which)
        lost_rows.keep(connection, connection.scalars(kept).all())
    gone = connection.scalars(
        sa.delete(error_transaction).where(which).returning(error_transaction.c.id)
    ).all()
    for table in (error_call, error_procedure, error_footprint):
        theirs = selected(table, {"error_id": tuple(gone)})
        connection.execute(sa.delete(table).where(theirs))
    error_dependencies.release(connection, gone, lost)
    return len(gone)


def get(connection: Connection, error_id: int) -> Row[Any]:
    """The catalog row of a parked transaction.

    Raises:
        NoSuchError: no parked transaction has that number.
    """
    row = connection.execute(
        select(error_transaction).where(error_transaction.c.id == error_id)
    ).one_or_none()
    if row is None:
        raise NoSuchError(
            f"There is no error transaction {error_id}.", error_id=error_id
        )
    return row


def procedures(connection: Connection, error_id: int) -> list[ProcedureCall]:
    """The procedures that a parked transaction calls, in order."""
    return [called.read(row) for row in connection.execute(_procedures(error_id))]


def numbers(connection: Connection, sender_id: uuid.UUID) -> tuple[int, ...]:
    """The numbers of all parked transactions of an origin."""
    of_origin = error_transaction.c.origin_id == sender_id
    wanted = select(error_transaction.c.id).where(of_origin).order_by("id")
    return tuple(connection.scalars(wanted))


def count_failed(connection: Connection, sender_id: uuid.UUID) -> int:
    """How many of a sender are parked for another reason than a quiet group."""
    at = error_transaction.c
    failed = at.reason != error_dependencies.HELD
    counted = select(func.count()).where(at.origin_id == sender_id, failed)
    return connection.scalar(counted) or 0


def of_table(connection: Connection, table: QualifiedName) -> int:
    """How many parked transactions may change a table.

    Those that call procedures count too, because these may change any table here.
    """
    call = error_call.c
    changing = select(call.error_id).where(
        call.target_schema == table.schema, call.target_table == table.name
    )
    counted = select(func.count()).where(
        or_(error_transaction.c.id.in_(changing), _calls_procedures())
    )
    return connection.scalar(counted) or 0


def with_procedures(connection: Connection, sender_id: uuid.UUID) -> tuple[int, ...]:
    """The parked transactions that call procedures, so that their rows are unknown."""
    wanted = (
        select(error_transaction.c.id)
        .where(error_transaction.c.origin_id == sender_id, _calls_procedures())
        .order_by("id")
    )
    return tuple(connection.scalars(wanted))


def _calls_procedures() -> ColumnElement[bool]:
    return sa.exists().where(error_procedure.c.error_id == error_transaction.c.id)


def parked(
    connection: Connection, sender_id: uuid.UUID, tables: Sequence[QualifiedName]
) -> int:
    """How many parked transactions of an origin may touch some tables."""
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
    wanted = select(func.count()).where(
        error_transaction.c.origin_id == sender_id,
        or_(error_transaction.c.id.in_(touching), _calls_procedures()),
    )
    return connection.scalar(wanted) or 0


def _count(connection: Connection, error_id: int) -> int:
    """How many calls a transaction has, including procedure calls."""
    each = (
        select(func.count()).where(table.c.error_id == error_id).scalar_subquery()
        for table in (error_call, error_procedure)
    )
    return connection.scalar(select(sum(each, start=sa.literal(0)))) or 0


def _procedures(error_id: int) -> sa.Select[*tuple[Any, ...]]:
    mine = error_procedure.c.error_id == error_id
    return select(error_procedure).where(mine).order_by("call_no")


def _procedure(row: Row[Any]) -> ErrorProcedure:
    call = called.read(row)
    return ErrorProcedure(
        call_no=call.call_no, name=call.name, arguments=call.arguments, error=row.error
    )


def _transaction(row: Row[Any]) -> ErrorTransaction:
    at = row._mapping
    stored = {name: at[name] for name in ErrorTransaction.__slots__ if name in at}
    return ErrorTransaction(**{**stored, "waits_for": tuple(row.waits_for)})


def _with_rows_now(
    connection: Connection, calls: Sequence[ErrorCall]
) -> tuple[ErrorCall, ...]:
    locks.briefly(connection)
    places = [_place(call) for call in calls]
    found = rows_now.read(connection, places)
    return tuple(
        replace(call, now=found.get(place))
        for call, place in zip(calls, places, strict=True)
    )


def _place(call: ErrorCall) -> Place:
    """The row that a call changes: it is found by its old key, or else its new one."""
    old, new = call.old or {}, call.new or {}
    key = tuple(old.get(name, new.get(name)) for name in call.identity_columns)
    target = names.parse(call.table)
    return Place(target, call.identity_columns, key, tuple(new or old))


def _call(row: Row[Any], present: present_names.PresentNames) -> ErrorCall:
    table = QualifiedName(row.target_schema, row.target_table)
    return ErrorCall(
        call_no=row.call_no,
        table=str(table),
        kind=row.kind,
        identity_columns=present.columns(table, row.identity_columns),
        old=present.image(table, row.old_values),
        new=present.image(table, row.new_values),
        current=present.image(table, row.current_values),
        conflict=row.conflict,
    )
