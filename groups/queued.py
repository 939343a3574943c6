"""The transactions that wait in given queues, and their numbers in the database."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection, func, select

from deferred.batches.ledger import original
from deferred.catalog import deferred_transaction, delivery, procedure_call
from deferred.queues.queue import Queue
from sites.capture import position
from sites.capture.position import STRETCH


class Numbers(NamedTuple):
    """A range of transaction numbers: from the first one up to before the end."""

    first: int
    end: int


def numbers(connection: Connection, queues: Sequence[Queue]) -> Numbers | None:
    """The numbers of the transactions whose calls are in these queues.

    All possible numbers if a repair has moved some: a number may then come again.
    """
    xid = deferred_transaction.c.xid
    number = original(xid)
    first, last, moved = connection.execute(
        select(
            func.min(number),
            func.max(number),
            func.bool_or(xid >= position.xid8(STRETCH)),
        ).where(xid.in_(transactions(queues)))
    ).one()
    if first is None:
        return None
    return Numbers(first=0, end=STRETCH) if moved else Numbers(first, last + 1)


def went_elsewhere(
    connection: Connection, queues: Sequence[Queue], others: Collection[str]
) -> bool:
    """Whether transactions of these queues went to some other destinations, too."""
    found = sa.exists().where(
        delivery.c.xid.in_(transactions(queues)),
        delivery.c.destination.in_(sorted(others)),
    )
    return bool(connection.scalar(select(found)))


def has_called(connection: Connection, destination: str) -> bool:
    """Whether the site has a call of a procedure that was made for a destination."""
    called = sa.literal(destination) == func.any(procedure_call.c.destinations)
    return bool(connection.scalar(select(sa.exists().where(called))))


def transactions(queues: Sequence[Queue]) -> sa.CompoundSelect[Any]:
    """The ids of the transactions whose calls are in these queues."""
    return sa.union(*(select(one.sql().c.xid) for one in queues))
