"""The changes that a master sends on to other masters after a push has brought them.

The queue of a group's table at that master records applied changes, as it records the
writes of users. For the master at which a transaction began, the routes of the table
say where it goes next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import func, select

from deferred.catalog import queue as queue_catalog
from deferred.catalog import route
from deferred.queues.queue import Queue
from sites import QualifiedName
from sites.sessions.prepared import as_json


def going_on(
    there: Sequence[Mapping[str, Any]], queues: Sequence[Queue], sender: str
) -> frozenset[QualifiedName]:
    """The tables for which a destination sends on the changes that this site brings.

    A transaction that touches one of them is applied in a transaction of its own, so
    that the next destination gets it as it was made.

    Parameters:
        there: what the destination has in `SENT_ON`.
    """
    return frozenset(
        queue.target
        for queue in queues
        for row in there
        if queue.target == QualifiedName(row["base_schema"], row["base_table"])
        and not _brought(queue, row["group_id"], sender).isdisjoint(row["sources"])
    )


_there = queue_catalog.c

#: The tables whose changes a master sends on, and the source masters, for statements
#: that read more.
SENT_ON = as_json(
    select(
        _there.base_schema,
        _there.base_table,
        _there.group_id,
        func.array_agg(route.c.source).label("sources"),
    )
    .join(route, route.c.queue_id == _there.id)
    .where(_there.group_id.is_not(None))
    .group_by(_there.id),
    "sent_on",
)


def _brought(queue: Queue, group: str, sender: str) -> set[str]:
    """The masters whose changes come through a queue, as the destination names them."""
    if str(queue.group_id) != group:
        return {""}  # they begin there
    return {source or sender for source in queue.sources}
