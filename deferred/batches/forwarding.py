"""Transactions that go on: from the master that a push has brought them to, to others.

The queue of a group's table records there what is applied, as it records what users
write. The transaction stays that of the site where it was made, and the paths of the
group say for the master at which it began where it goes next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import Connection, func, select

from deferred.batches.batch import Waiting
from deferred.catalog import queue as queue_catalog
from deferred.catalog import route
from deferred.queues.queue import Queue
from sites import QualifiedName


def sources(transaction: Waiting, sender: str, groups: Iterable[str]) -> dict[str, str]:
    """By group, the master at which a transaction began.

    Parameters:
        sender: the site whose queue it is in.
        groups: those that the sender pushes as one of their masters. Of one that it
            is no master of, the transaction begins at the destination.
    """
    return dict.fromkeys(groups, sender) | dict(transaction.sources or {})


def facts(
    transaction: Waiting, sender: str, began_at: Mapping[str, str]
) -> Mapping[str, object]:
    """What the queues of a destination keep of a transaction that goes on."""
    return {
        "origin": transaction.origin or sender,
        "transaction": transaction.xid,
        "user": transaction.origin_user,
        "made_at": transaction.start_time.isoformat(),
        "sources": began_at,
    }


def tables(
    target: Connection, queues: Sequence[Queue], sender: str
) -> frozenset[QualifiedName]:
    """The tables whose changes a destination sends on when this site brings them.

    Each transaction that touches one is applied by itself, in a transaction of its
    own: the next destination is to get it as it was made.
    """
    there = queue_catalog.c
    goes_on = target.execute(
        select(
            there.base_schema,
            there.base_table,
            there.replication_group,
            func.array_agg(route.c.source).label("sources"),
        )
        .join(route, route.c.queue_id == there.id)
        .where(there.replication_group.is_not(None))
        .group_by(there.id)
    ).all()
    return frozenset(
        queue.target
        for queue in queues
        for row in goes_on
        if queue.target == QualifiedName(row.base_schema, row.base_table)
        and not _brought(queue, row.replication_group, sender).isdisjoint(row.sources)
    )


def _brought(queue: Queue, group: str, sender: str) -> set[str]:
    """The masters whose changes come through a queue, as its destination sees them."""
    if queue.replication_group != group:
        return {""}  # they begin there
    return {source or sender for source in queue.sources}
