"""Purging a site's queue of calls that nobody can ask for any more."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import sqlalchemy as sa
from sqlalchemy import Connection, and_, func, not_, select

from deferred.catalog import deferred_transaction, delivery
from deferred.catalog import queue as queue_catalog
from deferred.queue import Queue, beyond, list_queues
from sites import Site, faults, identity
from sites.catalog import SCHEMA
from sites.types import NativeType

#: Delivered calls stay this long, for whoever has to look at what was sent.
RETENTION = timedelta(days=1)

#: A site that does not refresh for this long keeps the keys of its delivered
#: calls and gives up their images.
FOLD_AFTER = timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePurgeReport:
    """What a purge removed from a site's queue."""

    site: str
    transactions: int
    calls: int
    #: calls whose keys were kept for the next refresh
    folded: int


def purge(
    site: Site, *, retention: timedelta = RETENTION, fold_after: timedelta = FOLD_AFTER
) -> QueuePurgeReport:
    """Remove calls that are delivered, covered by a refresh, and past retention.

    (Oracle8: DBMS_DEFER_SYS.PURGE.) Calls that no refresh has covered are
    kept, until `fold_after`; then only their keys are, with batch and order,
    so that the next refresh still settles them.

    Parameters:
        retention: how long delivered calls stay.
    """
    with site.begin() as connection:
        identity.read(connection)
        calls = folded = 0
        for queue in list_queues(connection):
            folded += _fold(connection, queue, fold_after)
            faults.point("queue_purge.after_fold")
            calls += _purge_calls(connection, queue, retention)
        faults.point("queue_purge.before_commit")
        return QueuePurgeReport(
            site=site.name,
            transactions=_purge_transactions(connection, retention),
            calls=calls + folded,
            folded=folded,
        )


def _purge_calls(connection: Connection, queue: Queue, retention: timedelta) -> int:
    calls = queue.sql()
    covered = select(queue_catalog).where(queue_catalog.c.id == queue.id).subquery()
    gone = (
        select(delivery.c.xid)
        .where(_delivered_before(queue, retention))
        .where(not_(beyond(covered.c.covered_batch, covered.c.covered_order)))
    )
    return connection.execute(sa.delete(calls).where(calls.c.xid.in_(gone))).rowcount


def _fold(connection: Connection, queue: Queue, after: timedelta) -> int:
    """Turn calls that no refresh has covered for long into extra keys."""
    calls = queue.sql()
    old = select(delivery).where(_delivered_before(queue, after)).subquery()
    keys = queue.keys(calls)
    extra = sa.table(
        queue.extra_table,
        *(sa.column(key.name) for key in keys),
        *(sa.column(name) for name in ("reason", "batch_no", "order_no")),
        schema=SCHEMA,
    )
    covered = select(queue_catalog).where(queue_catalog.c.id == queue.id).subquery()
    uncovered = sa.or_(
        old.c.batch > covered.c.covered_batch,
        and_(
            old.c.batch == covered.c.covered_batch,
            old.c.order_no > covered.c.covered_order,
        ),
    )
    rows = (
        select(*keys, sa.literal("folded"), old.c.batch, old.c.order_no)
        .select_from(calls.join(old, old.c.xid == calls.c.xid))
        .join(covered, sa.true())
        .where(uncovered)
    )
    connection.execute(
        sa.insert(extra).from_select([c.name for c in extra.columns], rows)
    )
    return connection.execute(
        sa.delete(calls).where(
            calls.c.xid.in_(select(old.c.xid).join(covered, uncovered))
        )
    ).rowcount


def _delivered_before(queue: Queue, age: timedelta) -> sa.ColumnElement[bool]:
    return and_(
        delivery.c.destination == queue.destination,
        delivery.c.delivered_at < func.clock_timestamp() - sa.cast(age, sa.Interval),
    )


def _purge_transactions(connection: Connection, retention: timedelta) -> int:
    """Forget transactions that have no calls left in any queue."""
    xids = [select(calls.c.xid) for calls in (q.sql() for q in list_queues(connection))]
    nothing = sa.select(sa.cast(sa.null(), NativeType("xid8"))).where(sa.false())
    left = sa.union_all(*(xids or [nothing])).subquery()
    cutoff = func.clock_timestamp() - sa.cast(retention, sa.Interval)
    # In no window at all: its queue was dropped.
    needed = sa.exists().where(
        delivery.c.xid == deferred_transaction.c.xid,
        sa.or_(delivery.c.delivered_at.is_(None), delivery.c.delivered_at >= cutoff),
    )
    done = and_(
        not_(needed),
        deferred_transaction.c.xid.not_in(select(next(iter(left.c)))),
    )
    xids_gone = connection.scalars(
        sa.delete(deferred_transaction)
        .where(done)
        .returning(deferred_transaction.c.xid)
    ).all()
    if xids_gone:
        connection.execute(
            sa.delete(delivery).where(
                delivery.c.xid.not_in(select(deferred_transaction.c.xid)),
                delivery.c.delivered_at.is_not(None),
            )
        )
    return len(xids_gone)
