"""Batches: pieces of a queue that never change once they are cut."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy import (
    ColumnElement,
    Connection,
    cast,
    func,
    select,
)

from deferred.batches.marker import Marker
from deferred.catalog import deferred_transaction, delivery
from deferred.errors import PositionMismatch

if TYPE_CHECKING:
    from deferred.batches.procedure_call import ProcedureCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A piece of the queue to one destination."""

    destination: str
    number: int
    id: uuid.UUID
    #: order number of its last transaction
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A transaction of a batch, in its place."""

    #: its id where it was made
    xid: str
    order_no: int
    calls: int
    origin_user: str
    #: when it was made
    start_time: datetime
    #: procedures that it calls, in order
    procedures: tuple[ProcedureCall, ...] = ()
    #: where it was made; None is the site of this queue
    origin: str | None = None
    #: by replication group, the master at which it began; here, where none is named
    sources: Mapping[str, str] | None = None

    @property
    def units(self) -> tuple[int, ...]:
        """The numbers under which its changes stand in work tables, step by step."""
        return (*(call.call_no for call in self.procedures), self.order_no)


def waiting(
    connection: Connection, batch: Batch, after: int, end: int
) -> list[Waiting]:
    """Transactions of a batch, in order.

    Parameters:
        after, end: only those with an order number beyond the first of these, up to
            the second.
    """
    made = deferred_transaction.c
    rows = connection.execute(
        select(
            func.coalesce(made.origin_transaction, cast(delivery.c.xid, sa.Text)).label(
                "xid"
            ),
            delivery.c.order_no,
            delivery.c.calls,
            made.origin_user,
            func.coalesce(made.made_at, made.start_time).label("start_time"),
            made.origin,
            made.sources,
        )
        .join(deferred_transaction, made.xid == delivery.c.xid)
        .where(within(batch, after, end))
        .order_by(delivery.c.order_no)
    )
    return [Waiting(**row._mapping) for row in rows]


def purged(batch: Batch) -> PositionMismatch:
    """The error for a batch that the destination asks for and that is gone."""
    return PositionMismatch(
        f"{batch.destination} asks for batch {batch.number} again: it is purged.",
        destination=batch.destination,
        batch=batch.number,
    )


def within(batch: Batch, after: int, end: int) -> ColumnElement[bool]:
    """The deliveries of a part of a batch."""
    return part(batch.destination, batch.number, after, end)


def part(
    destination: str,
    number: int | ColumnElement[int],
    after: int | ColumnElement[int],
    end: int | ColumnElement[int],
) -> ColumnElement[bool]:
    """The same of the batch of a number, where numbers may be told to the session."""
    return sa.and_(
        delivery.c.destination == destination,
        delivery.c.batch == number,
        delivery.c.order_no > after,
        delivery.c.order_no <= end,
    )


def note_delivered(connection: Connection, name: str, marker: Marker) -> int:
    """Mark what the destination has answered; a hint, the marker is the truth."""
    result = connection.execute(
        sa.update(delivery)
        .where(
            delivery.c.destination == name,
            delivery.c.delivered_at.is_(None),
            sa.or_(
                delivery.c.batch < marker.batch_no,
                sa.and_(
                    delivery.c.batch == marker.batch_no,
                    delivery.c.order_no <= marker.order_no,
                ),
            ),
        )
        .values(delivered_at=func.clock_timestamp())
    )
    return result.rowcount
