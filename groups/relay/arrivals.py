"""Counting the transactions that come to a master of a group, by source and sender.

They are counted in the transaction that moves the marker, so the numbers are those of
answered transactions. If a group's paths are right, each master gets every change of
every other master once, from one neighbour, and none of its own.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import Connection, func, select
from sqlalchemy.dialects.postgresql import Insert, insert

from deferred.batches.batch import Batch, within
from deferred.catalog import deferred_transaction, delivery
from deferred.queues.queue import Queue
from groups.catalog import arrival

#: How many transactions, by id of a group and the master at which they began.
Arrived = Mapping[tuple[uuid.UUID, str], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """Transactions that began at one master and came from another one."""

    source: str
    sender: str
    transactions: int
    last_at: datetime

    def __str__(self) -> str:
        by = "" if self.sender == self.source else f" by {self.sender}"
        return f"{self.transactions} of {self.source}{by}"


def counting(sender: str, arrived: Arrived) -> Insert | None:
    """What notes in `arrival` that transactions of groups have arrived, if any have."""
    if not arrived:
        return None
    new = insert(arrival).values(
        [
            {
                "group_id": group,
                "source": source,
                "sender": sender,
                "transactions": transactions,
            }
            for (group, source), transactions in sorted(arrived.items())
        ]
    )
    return new.on_conflict_do_update(
        index_elements=["group_id", "source", "sender"],
        set_={
            "transactions": arrival.c.transactions + new.excluded.transactions,
            "last_at": func.clock_timestamp(),
        },
    )


def of_part(
    origin: Connection,
    batch: Batch,
    queues: Sequence[Queue],
    sender: str,
    part: tuple[int, int],
) -> Arrived:
    """Count the transactions in a part of a batch.

    Parameters:
        part: the transactions after the first order number, up to the second.
    """
    found: Counter[tuple[uuid.UUID, str]] = Counter()
    groups = {one.group_id for one in queues if one.group_id is not None}
    for group in groups:
        calls = [
            select(delivery.c.xid)
            .join_from(delivery, table, table.c.xid == delivery.c.xid)
            .where(within(batch, *part), queue.goes_there(delivery.c.xid))
            for queue in queues
            if queue.group_id == group
            for table in [queue.sql()]
        ]
        every = sa.union_all(*calls).subquery()
        xids = select(every.c.xid).distinct().subquery()
        began = deferred_transaction.c.sources[str(group)].astext
        source = func.coalesce(func.nullif(began, ""), sender).label("source")
        rows = origin.execute(
            select(source, func.count().label("transactions"))
            .join_from(
                xids, deferred_transaction, deferred_transaction.c.xid == xids.c.xid
            )
            .group_by(source)
        )
        for row in rows:
            found[group, row.source] += row.transactions
    if groups:
        origin.commit()  # nothing was written there
    return found


def arrivals(connection: Connection, group: uuid.UUID) -> list[Arrival]:
    """The counts of a group's transactions here, by source and sender."""
    rows = connection.execute(
        select(*(arrival.c[name] for name in Arrival.__slots__))
        .where(arrival.c.group_id == group)
        .order_by("source", "sender")
    )
    return [Arrival(**row._mapping) for row in rows]


def forget(connection: Connection, group: uuid.UUID) -> None:
    """Delete the counts of a group that this site leaves."""
    connection.execute(sa.delete(arrival).where(arrival.c.group_id == group))
