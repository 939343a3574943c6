"""The transactions of some queues, by the numbers that their database gave them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection, func, select

from deferred.batches.ledger import original
from deferred.catalog import deferred_transaction, delivery
from deferred.queues.queue import Queue
from sites import position
from sites.position import STRETCH


class Numbers(NamedTuple):
    """The numbers that transactions were given: from the first up to before the end."""

    first: int
    end: int


def numbers(connection: Connection, queues: Sequence[Queue]) -> Numbers | None:
    """The numbers of the transactions that these queues have calls of.

    All that there are, where a repair has moved some: a number may come again.
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


def transactions(queues: Sequence[Queue]) -> sa.CompoundSelect[Any]:
    """The ids of the transactions that queues have calls of."""
    return sa.union(*(select(one.sql().c.xid) for one in queues))
