"""Counting the transactions that come to a master of a group, by source and sender.

They are counted in the transaction that moves the marker, so the numbers are those of
answered transactions. If a group's paths are right, each master gets every change of
every other master once, from one neighbour, and none of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import Connection, func, select
from sqlalchemy.dialects.postgresql import insert

from deferred.batches.batch import Batch, within
from deferred.catalog import deferred_transaction, delivery
from deferred.queues.queue import Queue
from groups.catalog import arrival

#: How many transactions, by replication group and the master at which they began.
Arrived = Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """Transactions that began at one master and came from another one."""

    source: str
    sender: str
    transactions: int
    last_at: datetime


def count(connection: Connection, sender: str, arrived: Arrived) -> None:
    """Note that transactions of groups have arrived. Writes arrival."""
    if not arrived:
        return
    new = insert(arrival).values(
        [
            {
                "replication_group": group,
                "source": source,
                "sender": sender,
                "transactions": transactions,
            }
            for (group, source), transactions in sorted(arrived.items())
        ]
    )
    connection.execute(
        new.on_conflict_do_update(
            index_elements=["replication_group", "source", "sender"],
            set_={
                "transactions": arrival.c.transactions + new.excluded.transactions,
                "last_at": func.clock_timestamp(),
            },
        )
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
    found: Counter[tuple[str, str]] = Counter()
    groups = {one.replication_group for one in queues if one.replication_group}
    for group in groups:
        calls = [
            select(delivery.c.xid)
            .join_from(delivery, table, table.c.xid == delivery.c.xid)
            .where(within(batch, *part), queue.goes_there(delivery.c.xid))
            for queue in queues
            if queue.replication_group == group
            for table in [queue.sql()]
        ]
        every = sa.union_all(*calls).subquery()
        xids = select(every.c.xid).distinct().subquery()
        began = deferred_transaction.c.sources[group].astext
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


def arrivals(connection: Connection, group: str) -> list[Arrival]:
    """The counts of a group's transactions here, by source and sender."""
    rows = connection.execute(
        select(*(arrival.c[name] for name in Arrival.__slots__))
        .where(arrival.c.replication_group == group)
        .order_by("source", "sender")
    )
    return [Arrival(**row._mapping) for row in rows]


def forget(connection: Connection, group: str) -> None:
    """Delete the counts of a group that this site leaves."""
    connection.execute(sa.delete(arrival).where(arrival.c.replication_group == group))
