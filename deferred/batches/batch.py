"""Batches: pieces of a queue that never change after they are cut."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, cast, func, select
from sqlalchemy.dialects.postgresql import insert

from deferred.batches.called import ProcedureCall
from deferred.batches.marker import Marker
from deferred.catalog import batch as batch_catalog
from deferred.catalog import (
    deferred_transaction,
    delivery,
    delivery_row,
    destination,
    procedure_call,
)
from deferred.errors import PositionMismatch
from sites.sessions.prepared import Prepared


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A piece of the queue to one destination."""

    destination: str
    number: int
    id: uuid.UUID
    #: order number of its last transaction
    end: int
    #: the push that cut it, if that was traced
    traceparent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedTransaction:
    """A queued transaction of a batch."""

    #: its id where it was made
    xid: str
    order_no: int
    calls: int
    origin_user: str
    #: when it was made
    start_time: datetime
    #: its site has queued procedure calls, perhaps some of this transaction
    may_call: bool = False
    #: procedures that it calls, in order
    procedures: tuple[ProcedureCall, ...] = ()
    #: where it was made; None is the site of this queue
    origin: str | None = None
    #: by replication group, the master at which it began; this site if none is named
    sources: Mapping[str, str] | None = None

    @property
    def units(self) -> tuple[int, ...]:
        """The unit numbers of its changes in work tables, step by step."""
        return (*(call.call_no for call in self.procedures), self.order_no)


def queued_transactions(
    connection: Connection, batch: Batch, after: int, end: int
) -> Callable[[], list[QueuedTransaction]]:
    """Transactions of a batch, in order; without a transaction, in one of its own.

    Parameters:
        after, end: the transactions after the first order number, up to the second.

    Returns:
        What the caller calls to get them; meanwhile it can ask others.
    """
    asked = _WAITING.send(connection, **placed(batch, after, end))
    return lambda: [QueuedTransaction(**row._mapping) for row in asked.answer()]


def purged(batch: Batch) -> PositionMismatch:
    """The error for a batch that the destination needs and that was purged."""
    return PositionMismatch(
        f"{batch.destination} asks for batch {batch.number} again, but it has been "
        "purged.",
        destination=batch.destination,
        batch=batch.number,
    )


def within(batch: Batch, after: int, end: int) -> ColumnElement[bool]:
    """The condition that selects the deliveries of a part of a batch."""
    return part(batch.destination, batch.number, after, end)


def part(
    destination: str | ColumnElement[str],
    number: int | ColumnElement[int],
    after: int | ColumnElement[int],
    end: int | ColumnElement[int],
) -> ColumnElement[bool]:
    """As `within`, for a batch of this number; numbers may also be expressions."""
    return sa.and_(
        delivery.c.destination == destination,
        delivery.c.batch == number,
        delivery.c.order_no > after,
        delivery.c.order_no <= end,
    )


def found_by_xid(
    destination: str,
    number: int | ColumnElement[int],
    after: int | ColumnElement[int],
    end: int | ColumnElement[int],
) -> Callable[[ColumnElement[Any]], ColumnElement[bool]]:
    """A condition on transaction ids that an index finds for a part of a batch.

    It holds for all transactions of the part, and perhaps for others: of a batch
    without rows, also for those that began before it was cut and are not in it.
    """
    its, row = batch_catalog.c, delivery_row.c
    mine = its.destination == destination, its.number == number
    first, upto = (
        select(value).where(*mine).scalar_subquery()
        for value in (its.first_xid, func.pg_snapshot_xmax(its.shown))
    )
    rows = select(row.xid).where(
        row.destination == destination,
        row.batch == number,
        row.order_no > after,
        row.order_no <= end,
    )

    def condition(xid: ColumnElement[Any]) -> ColumnElement[bool]:
        listed = xid == func.any(func.array(rows.scalar_subquery()))
        return sa.or_(sa.and_(xid >= first, xid < upto), listed)

    return condition


def touching(
    connection: Connection,
    batch: Batch,
    calls: sa.TableClause,
    *among: ColumnElement[bool],
) -> set[int]:
    """The transactions of a batch with such calls in a queue, by order number.

    Mostly none has. PostgreSQL does not know how many transactions a new batch has, and
    by a join it would look for the calls of each. So the statement has it read all of
    them by an index, and look up the order numbers of those that it finds.
    """
    part = batch.destination, batch.number, -1, batch.end
    there = found_by_xid(*part)(calls.c.xid)
    matching = select(calls.c.xid).distinct().where(there, *among)
    found = matching.subquery("found")
    order_no = (
        select(delivery.c.order_no)
        .where(within(batch, -1, batch.end), delivery.c.xid == found.c.xid)
        .correlate(found)
        .scalar_subquery()
    )
    numbers = connection.scalars(select(order_no).select_from(found))
    # NULL for a transaction that the index found, and that is not in the batch.
    return {number for number in numbers if number is not None}


#: The condition of `part` with parameters that a statement is given: see `placed`.
PART = part(
    sa.bindparam("its_destination", "", sa.Text),
    *(
        sa.bindparam(name, 0, sa.BigInteger)
        for name in ("its_number", "its_start", "its_end")
    ),
)


def placed(batch: Batch, after: int, end: int) -> dict[str, object]:
    """The parameters that `PART` takes for a part of a batch."""
    return {
        "its_destination": batch.destination,
        "its_number": batch.number,
        "its_start": after,
        "its_end": end,
    }


_MADE = deferred_transaction.c
_WAITING = Prepared(
    select(
        func.coalesce(_MADE.origin_transaction, cast(delivery.c.xid, sa.Text)).label(
            "xid"
        ),
        delivery.c.order_no,
        delivery.c.calls,
        _MADE.origin_user,
        func.coalesce(_MADE.made_at, _MADE.start_time).label("start_time"),
        _MADE.origin,
        _MADE.sources,
        select(procedure_call.c.xid).exists().label("may_call"),
    )
    .join(deferred_transaction, _MADE.xid == delivery.c.xid)
    .where(PART)
    .order_by(delivery.c.order_no)
)


def note_delivered(connection: Connection, name: str, marker: Marker) -> None:
    """Note what the destination has answered of a batch; the marker is the truth."""
    _NOTED.run(connection, **answered(name, marker))


def note_all_answered(
    connection: Connection, name: str, number: int | None = None
) -> None:
    """Note that a destination has answered all deliveries that have a batch.

    Forgets batches that no delivery has: their numbers may come again.

    Parameters:
        number: only those of this batch.
    """
    of = [delivery.c.destination == name, delivery.c.batch.is_not(None)]
    mine = batch_catalog.c.destination == name
    if number is None:
        kept = select(delivery.c.batch).where(*of)
        connection.execute(
            sa.delete(batch_catalog).where(mine, batch_catalog.c.number.not_in(kept))
        )
    else:
        of.append(delivery.c.batch == number)
    last, now = func.max(delivery.c.order_no), func.clock_timestamp()
    rows = (
        select(delivery.c.destination, delivery.c.batch, last, now)
        .where(*of)
        .group_by(delivery.c.destination, delivery.c.batch)
    )
    new = insert(batch_catalog).from_select(
        ["destination", "number", "answered", "answered_at"], rows
    )
    connection.execute(
        new.on_conflict_do_update(
            index_elements=[batch_catalog.c.destination, batch_catalog.c.number],
            set_={
                "answered": new.excluded.answered,
                "answered_at": new.excluded.answered_at,
            },
        )
    )


def forget_batches(connection: Connection) -> None:
    """Forget older batches that no delivery has any more."""
    its = batch_catalog.c
    older = select(destination.c.name).where(
        destination.c.name == its.destination, destination.c.batch_no > its.number
    )
    has = select(delivery.c.xid).where(
        delivery.c.destination == its.destination, delivery.c.batch == its.number
    )
    connection.execute(
        sa.delete(batch_catalog).where(older.exists(), sa.not_(has.exists()))
    )


def noted() -> sa.Update:
    """Move what is answered of a batch; takes the parameters of `answered`.

    Only of the marker's batch: earlier ones were noted before the next was cut.
    """
    its, end = batch_catalog.c, sa.bindparam("its_end", type_=sa.BigInteger)
    return (
        sa.update(batch_catalog)
        .where(
            its.destination == sa.bindparam("its_destination", type_=sa.Text),
            its.number == sa.bindparam("its_number", type_=sa.BigInteger),
            its.answered < end,
        )
        .values(answered=end, answered_at=func.clock_timestamp())
    )


def answered(name: str, marker: Marker) -> dict[str, object]:
    """The parameters of `noted`: what a destination has answered of its batch."""
    return {
        "its_destination": name,
        "its_number": marker.batch_no,
        "its_end": marker.order_no,
    }


_NOTED = Prepared(noted())
