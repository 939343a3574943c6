"""Batches: pieces of a queue that never change after they are cut."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, cast, func, select

from deferred.batches.called import ProcedureCall
from deferred.batches.marker import Marker
from deferred.catalog import deferred_transaction, delivery, procedure_call
from deferred.errors import PositionMismatch
from sites.sessions.prepared import planned_once


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
) -> list[QueuedTransaction]:
    """Transactions of a batch, in order.

    Parameters:
        after, end: the transactions after the first order number, up to the second.
    """
    rows = connection.execute(_WAITING, placed(batch, after, end))
    return [QueuedTransaction(**row._mapping) for row in rows]


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
    """The same for a batch number; numbers may be expressions, as session settings."""
    return sa.and_(
        delivery.c.destination == destination,
        delivery.c.batch == number,
        delivery.c.order_no > after,
        delivery.c.order_no <= end,
    )


#: The same with parameters, which are given with the statement: see `placed`.
PART = part(
    sa.bindparam("its_destination", type_=sa.Text),
    *(
        sa.bindparam(name, type_=sa.BigInteger)
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
_WAITING = planned_once(
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
    """Mark deliveries that the destination has answered; the marker is the truth."""
    connection.execute(_DELIVERED, answered(name, marker))


def delivered() -> sa.Update:
    """Mark deliveries as answered; takes the parameters of `answered`.

    Only in the marker's batch: earlier batches were marked before the next was cut. A
    look at the last delivery shows whether there is anything to do: dropped queues and
    purges remove others.
    """
    last = (
        select(delivery.c.delivered_at.is_(None))
        .where(PART)
        .order_by(delivery.c.order_no.desc())
        .limit(1)
        .scalar_subquery()
    )
    return (
        sa.update(delivery)
        .where(PART, delivery.c.delivered_at.is_(None), last)
        .values(delivered_at=func.clock_timestamp())
    )


def answered(name: str, marker: Marker) -> dict[str, object]:
    """The parameters of `delivered`: what a destination has answered of its batch."""
    return {
        "its_destination": name,
        "its_number": marker.batch_no,
        "its_start": -1,
        "its_end": marker.order_no,
    }


_DELIVERED = planned_once(delivered())
