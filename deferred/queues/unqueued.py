"""Finding snapshots whose changes no trigger queues, before a push looks at the queue.

ALTER TABLE ... DISABLE TRIGGER or ENABLE TRIGGER ALL changes our triggers, too, and a
child that inherits from a base table has none. What users change then is in no queue: a
push would say that all is sent.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, func, select

from deferred.catalog import queue, route
from deferred.errors import ChangesNotQueued
from deferred.queues import queue_function
from sites import QualifiedName
from sites.capture import triggers
from sites.tables.table import describe


def snapshots_of(destination: ColumnElement[str]) -> ColumnElement[list[str] | None]:
    """The snapshots with changes to a destination that lack triggers; NULL if none do.

    Those of tables of groups are told by `masters.group_parts`.
    """
    at = queue.c
    whole = triggers.of_row(
        at.base_schema,
        at.base_table,
        at.queue_table,
        prefix=queue_function.PREFIX,
        events=queue_function.EVENTS,
    )
    there = select(route.c.queue_id).where(
        route.c.queue_id == at.id, route.c.destination == destination
    )
    lacking = select(func.array_agg(at.snapshot)).where(
        at.group_id.is_(None), there.correlate_except(route).exists(), sa.not_(whole)
    )
    return lacking.scalar_subquery()


def refuse(connection: Connection, snapshots: Sequence[str]) -> None:
    """Say which triggers these snapshots lack, and what creates them.

    Raises:
        ChangesNotQueued.
        UnknownTable: a base table is gone.
    """
    at = queue.c
    lacking = [
        one
        for row in connection.execute(select(queue).where(at.snapshot.in_(snapshots)))
        for one in triggers.lacking(
            connection,
            describe(connection, QualifiedName(row.base_schema, row.base_table)),
            row.queue_table,
            events=queue_function.EVENTS,
        )
    ]
    todo = "; ".join(s.as_string() for one in lacking for s in one.statements())
    raise ChangesNotQueued(
        f"Changes of {', '.join(sorted(snapshots))} are not queued: a trigger of "
        f"Snaptide is missing or not ENABLE ALWAYS. Run: {todo}",
        snapshots=sorted(snapshots),
    )
