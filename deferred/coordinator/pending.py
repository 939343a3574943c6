"""Rows that the site has changed and not pushed yet: no synchronous change of them."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Connection, and_, exists, select

from deferred.catalog import deferred_transaction, delivery
from deferred.errors import PendingCalls
from deferred.queues.queue import Queue
from sites.types import Xid8


def refuse(connection: Connection, queue: Queue, xid: str, after: int) -> None:
    """Refuse calls of an open transaction on rows with calls that wait for a push.

    Applied now, they would overtake those. A synchronous queue has none: it was
    drained, and need not be asked.

    Parameters:
        xid: of the open transaction.
        after: only its calls with a higher number.

    Raises:
        PendingCalls.
    """
    mine, theirs = queue.sql().alias("mine"), queue.sql().alias("theirs")
    same = [
        here.element == there.element
        for here, there in zip(queue.keys(mine), queue.keys(theirs), strict=True)
    ]
    waiting = ~exists().where(
        delivery.c.destination == queue.destination,
        delivery.c.xid == deferred_transaction.c.xid,
        delivery.c.delivered_at.is_not(None),
    )
    ours = sa.literal_column(f"'{int(xid)}'", Xid8())
    found = connection.execute(
        select(*queue.keys(mine))
        .select_from(mine.join(theirs, and_(*same)))
        .join(deferred_transaction, deferred_transaction.c.xid == theirs.c.xid)
        .where(mine.c.xid == ours, mine.c.call_no > after)
        .where(theirs.c.xid != ours, waiting)
        .limit(1)
    ).one_or_none()
    if found is not None:
        key = dict(zip(queue.identity_columns, found, strict=True))
        raise PendingCalls(
            f"Row {key} of {queue.snapshot} has changes that wait for a push to"
            f" {queue.destination}.",
            snapshot=queue.snapshot,
            key=key,
        )
