"""Transactions that a master sends on to other masters after a push has brought them.

The queue of a group's table at that master records applied changes, as it records the
writes of users. The transaction keeps the site where it was made as its origin. For the
master at which it began, the paths of the group say where it goes next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Text, cast, false, func, select
from sqlalchemy.dialects.postgresql import JSONB

from deferred.batches.batch import QueuedTransaction
from deferred.catalog import queue as queue_catalog
from deferred.catalog import route
from deferred.queues.queue import Queue
from sites import QualifiedName
from sites.prepared import planned_once


def sources(
    transaction: QueuedTransaction, sender: str, groups: Iterable[str]
) -> dict[str, str]:
    """By group, the master at which a transaction began.

    Parameters:
        sender: the site whose queue it is in.
        groups: those that the sender pushes as one of their masters. In any other
            group the transaction begins at the destination.
    """
    known = dict(transaction.sources or {})
    return dict.fromkeys(groups, sender) | {
        group: source or sender for group, source in known.items()
    }


#: A key beside the groups: the masters that have set aside these rows of a transaction.
_PART = ""


def part(sources: Mapping[str, str] | None) -> str:
    """Which part of a transaction this is; '' is the part that was not set aside."""
    return (sources or {}).get(_PART, "")


def set_aside(sources: Mapping[str, str], at: str) -> dict[str, str]:
    """The sources for rows that are parked while the rest of them is applied.

    After a retry, these rows go on by themselves; the mark keeps other masters from
    taking them for a second arrival of the rest.

    Parameters:
        at: the master where they are parked.
    """
    before = sources.get(_PART)
    return {**sources, _PART: f"{before}/{at}" if before else at}


def began_at_a_master(sources: ColumnElement[Any]) -> ColumnElement[bool]:
    """Whether a transaction began at a master of a group, by its stored sources."""
    groups = sources.op("-")(cast(_PART, Text))
    return func.coalesce(groups != cast({}, JSONB), false())


def facts(
    *,
    origin: str,
    transaction: str,
    user: str,
    made_at: datetime | None,
    began_at: Mapping[str, str] | None,
) -> Mapping[str, object]:
    """The facts that a destination's queues store about a transaction that goes on.

    Parameters:
        origin: the site where it was made.
        transaction: its id there; `user` and `made_at` are from there too.
        began_at: by group, the master at which it began.
    """
    return {
        "origin": origin,
        "transaction": transaction,
        "user": user,
        "made_at": made_at and made_at.isoformat(),
        "sources": began_at or {},
    }


def onward_routes(target: Connection) -> Sequence[Row[Any]]:
    """The tables whose changes a destination sends on, and the source masters."""
    return target.execute(_GOES_ON).all()


def tables(
    there: Sequence[Row[Any]], queues: Sequence[Queue], sender: str
) -> frozenset[QualifiedName]:
    """The tables for which a destination sends on the changes that this site brings.

    A transaction that touches one of them is applied in a transaction of its own, so
    that the next destination gets it as it was made.

    Parameters:
        there: the `onward_routes` of the destination.
    """
    return frozenset(
        queue.target
        for queue in queues
        for row in there
        if queue.target == QualifiedName(row.base_schema, row.base_table)
        and not _brought(queue, row.replication_group, sender).isdisjoint(row.sources)
    )


_there = queue_catalog.c
_GOES_ON = planned_once(
    select(
        _there.base_schema,
        _there.base_table,
        _there.replication_group,
        func.array_agg(route.c.source).label("sources"),
    )
    .join(route, route.c.queue_id == _there.id)
    .where(_there.replication_group.is_not(None))
    .group_by(_there.id)
)


def _brought(queue: Queue, group: str, sender: str) -> set[str]:
    """The masters whose changes come through a queue, as the destination names them."""
    if queue.replication_group != group:
        return {""}  # they begin there
    return {source or sender for source in queue.sources}
