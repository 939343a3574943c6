"""Which calls of a queue are covered: a refresh has seen the destination's answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Connection,
    Select,
    func,
    select,
)

from deferred.catalog import delivery
from deferred.catalog import queue as queue_catalog
from deferred.queues.queue import Queue, changes_key, delivery_of, is_delivered
from sites.transfer.types import NativeType

#: A transaction is open that began before `written`, a row of the catalog of queues,
#: was last written.
_STILL_AT_WORK: ColumnElement[bool] = sa.literal_column(
    "age(written.xmin) <= age(pg_snapshot_xmin(pg_current_snapshot())::xid)", sa.Boolean
)


def uncovered_keys(queue: Queue) -> CompoundSelect[Any]:
    """Keys (k1, k2, ...) of calls whose answer no refresh has seen.

    Reads the covered place from the catalog, so that a view made of it stays current.
    """
    batch, order = _covered(queue)
    return _keys_beyond(queue, batch, order)


def uncovered_calls(queue: Queue, batch_no: int, order_no: int) -> CompoundSelect[Any]:
    """The same keys, with what became of their calls as a marker knows it.

    Parameters:
        batch_no, order_no: a marker, as it was read at the destination.

    Returns:
        A query with k1, k2, ..., `xid`, and `waits`: the marker has not reached the
        call's transaction.
    """
    waits = beyond(batch_no, order_no).label("waits")
    batch, order = _covered(queue)
    return _keys_beyond(queue, batch, order, waits)


def added_keys(queue: Queue) -> Select[Any]:
    """Keys (k1, k2, ...) that calls have given to rows, and no refresh has seen that.

    These are inserts, and updates that change a key.
    """
    calls, (batch, order) = queue.sql(), _covered(queue)
    on = calls.outerjoin(delivery, delivery_of(queue, calls))
    inserts = func.upper(sa.cast(calls.c.kind, sa.Text)) == "I"
    return (
        select(*queue.new_keys(calls))
        .select_from(on)
        .where(beyond(batch, order), sa.or_(inserts, changes_key(calls)))
    )


def pending_keys(
    queue: Queue, batch_no: ColumnElement[int] | int, order_no: ColumnElement[int] | int
) -> CompoundSelect[Any]:
    """Keys (k1, k2, ...) of calls that a marker does not cover yet.

    Parameters:
        batch_no, order_no: the marker as the refresh read it at the master.
    """
    return _keys_beyond(queue, batch_no, order_no)


def cover(
    connection: Connection, snapshots: Sequence[str], batch_no: int, order_no: int
) -> None:
    """Note that a refresh shows the answer to every call up to a marker."""
    connection.execute(
        sa.update(queue_catalog)
        .where(queue_catalog.c.snapshot.in_(snapshots))
        .values(covered_batch=batch_no, covered_order=order_no)
    )


def covers(
    snapshots: Sequence[str],
    batch_no: ColumnElement[int] | int,
    order_no: ColumnElement[int] | int,
) -> ColumnElement[bool]:
    """Whether the last refresh of each of these snapshots saw this very marker."""
    at = sa.tuple_(queue_catalog.c.covered_batch, queue_catalog.c.covered_order)
    of_them = queue_catalog.c.snapshot == sa.any_(
        sa.literal([*snapshots], sa.ARRAY(sa.Text))
    )
    other = select(queue_catalog.c.id).where(
        of_them, at != sa.tuple_(batch_no, order_no)
    )
    return ~other.exists()


def nothing_waits(connection: Connection, queues: Sequence[Queue]) -> bool:
    """Whether refreshes show the answers to all changes that were made before them.

    Every call is covered, no key has to be read again, and no transaction is open that
    began before the last refresh was written.
    """
    written = queue_catalog.alias("written")
    open_: list[ColumnElement[bool]] = [
        select(written.c.id)
        .where(written.c.id.in_([queue.id for queue in queues]), _STILL_AT_WORK)
        .exists()
    ]
    for queue in queues:
        open_.append(select(uncovered_keys(queue).subquery()).exists())
        if queue.extra is not None:
            open_.append(select(queue.extra).exists())
    return not connection.scalar(select(sa.or_(*open_)))


def waiting_since_before(connection: Connection, queues: Sequence[Queue]) -> set[str]:
    """Destinations that have not answered a call made before their last refresh.

    Such a call may mean a row that the site no longer shows.

    Parameters:
        queues: all of the site; no refresh reads those of groups.
    """
    written, found = queue_catalog.alias("written"), set[str]()
    for queue in queues:
        if queue.group_id is not None or queue.destination in found:
            continue
        calls = queue.sql()
        older = (
            select(calls.c.xid)
            .outerjoin(delivery, delivery_of(queue, calls))
            .where(sa.not_(is_delivered()), _made_before(calls.c.xid))
            .correlate(written)
            .exists()
        )
        refreshed = select(written.c.id).where(
            written.c.id.in_(
                [q.id for q in queues if q.destination == queue.destination]
            ),
            written.c.covered_batch > 0,
            older,
        )
        if connection.scalar(select(refreshed.exists())):
            found.add(queue.destination)
    return found


def _made_before(xid: ColumnElement[Any]) -> ColumnElement[bool]:
    """A transaction began before `written`, a row of the catalog of queues, was."""
    age = func.age(sa.cast(xid, NativeType("xid")))
    return age > sa.literal_column("age(written.xmin)", sa.Integer)


def beyond(
    batch_no: ColumnElement[Any] | int,
    order_no: ColumnElement[Any] | int,
    of: sa.FromClause = delivery,
) -> ColumnElement[bool]:
    """Whether a transaction, in a batch or in none yet, comes after a marker.

    Parameters:
        of: deliveries.
    """
    return sa.or_(
        of.c.batch.is_(None),
        of.c.batch > batch_no,
        sa.and_(of.c.batch == batch_no, of.c.order_no > order_no),
    )


def _covered(queue: Queue) -> list[ColumnElement[Any]]:
    mine = queue_catalog.alias("covered")
    return [
        select(mine.c[name]).where(mine.c.id == queue.id).scalar_subquery()
        for name in ("covered_batch", "covered_order")
    ]


def _keys_beyond(
    queue: Queue,
    batch_no: ColumnElement[Any] | int,
    order_no: ColumnElement[Any] | int,
    waits: ColumnElement[bool] | None = None,
) -> CompoundSelect[Any]:
    """Keys of calls after a place; with `waits`, this and the transaction of each."""
    calls = queue.sql()
    of = [] if waits is None else [calls.c.xid, waits]
    on = calls.outerjoin(delivery, delivery_of(queue, calls))
    there = beyond(batch_no, order_no)
    return sa.union_all(
        select(*queue.keys(calls), *of).select_from(on).where(there),
        select(*queue.new_keys(calls), *of)
        .select_from(on)
        .where(there, changes_key(calls)),
    )
