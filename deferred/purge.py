"""Purging a site's queue of calls that no push or refresh can need any more."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from operator import attrgetter
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, TableClause, and_, func, not_, select
from sqlalchemy.dialects.postgresql import array

from deferred.batches import ledger, work
from deferred.batches.batch import forget_batches
from deferred.batches.reconcile import TURN
from deferred.catalog import (
    deferred_transaction,
    delivery,
    delivery_row,
    destination,
    procedure_call,
)
from deferred.catalog import queue as queue_catalog
from deferred.queues.queue import (
    Queue,
    call_numbers,
    delivered_before,
    is_delivered,
    list_queues,
    not_delivered_before,
    undelivered_calls,
)
from deferred.queues.refresh_coverage import beyond, waiting_since_before
from sites import Site, faults
from sites.capture import position
from sites.sessions import identity
from sites.tables import locks

#: Delivered calls are kept this long, so that a master that is restored from
#: yesterday's backup gets them again.
RETENTION = timedelta(days=2)

#: If a site does not refresh for this long, only the keys of its delivered calls are
#: kept, and not their images.
FOLD_AFTER = timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePurgeReport:
    """The counts of what a purge removed from a site's queue."""

    site: str
    transactions: int
    calls: int
    #: calls whose keys were kept for the next refresh
    folded: int


def purge(
    site: Site, *, retention: timedelta = RETENTION, fold_after: timedelta = FOLD_AFTER
) -> QueuePurgeReport:
    """Remove calls that are delivered, covered by a refresh, and past retention.

    (Oracle8: DBMS_DEFER_SYS.PURGE.) Calls that no refresh has covered are kept until
    `fold_after`, and until none waits for their destination; then only their keys are
    kept, with batch and order, so that the next refresh still settles them. While a
    call waits that was made before the last refresh, those delivered to its destination
    stay: it may mean a row that one of them made and the destination parked, and after
    a switch the new master has to know that.

    As a destination, the site deletes ledger entries of batches that are older than any
    backup that is restored (`deferred.batches.ledger.RETENTION`), and drops unused work
    tables of coordinated transactions.

    Parameters:
        retention: how long delivered calls stay, so that a destination that is
            restored from a backup no older than that gets them again.
        fold_after: how long the images of delivered calls wait for a refresh.

    Raises:
        SiteChanged: in another cluster, a new transaction may have the id of an old one
            whose calls can go.
    """
    with identity.initialised(site) as connection:
        identity.refuse_changed(connection, site.name)
        locks.wait_turn(connection, TURN, shared=True)
        calls, folded, began = 0, 0, position.current(connection)
        every = list_queues(connection)
        tables, awaited = _by_table(every), waiting_since_before(connection, every)
        foldable = _foldable(connection, every)
        for queues in tables:
            if queues[0] in foldable:
                folded += _fold(connection, queues[0], fold_after)
            faults.point("queue_purge.after_fold")
            calls += _purge_calls(connection, queues, awaited, retention)
        left = [queues[0].sql() for queues in tables]
        calls += _purge_procedures(connection, left, retention)
        ledger.purge(connection)
        faults.point("queue_purge.before_commit")
        report = QueuePurgeReport(
            site=site.name,
            transactions=_purge_transactions(connection, retention, began),
            calls=calls + folded,
            folded=folded,
        )
    work.sweep(site)
    return report


def _purge_procedures(
    connection: Connection, queues: Sequence[TableClause], retention: timedelta
) -> int:
    """Remove procedure calls that all their destinations have answered long ago.

    A call stays until the row changes of its transaction are removed: it says which of
    them are to be sent, to other destinations too.
    """
    call = procedure_call
    to = func.unnest(call.c.destinations).label("name")
    each = select(call.c.call_no, call.c.xid, to).subquery()
    needed = (
        select(each.c.call_no)
        .outerjoin(
            delivery,
            and_(delivery.c.destination == each.c.name, delivery.c.xid == each.c.xid),
        )
        .where(not_(delivered_before(retention)))
    )
    changes = (sa.exists().where(one.c.xid == call.c.xid) for one in queues)
    done = and_(call.c.call_no.not_in(needed), *map(not_, changes))
    return _remove(connection, call, done, call.c.destinations)


def _by_table(queues: Sequence[Queue]) -> list[list[Queue]]:
    """The queues grouped by table: one for each destination of the table's calls."""
    return [
        list(of_table) for _, of_table in groupby(queues, attrgetter("queue_table"))
    ]


def _purge_calls(
    connection: Connection,
    of_table: Sequence[Queue],
    awaited: Set[str],
    retention: timedelta,
) -> int:
    """Remove calls that neither a destination nor a refresh needs.

    Parameters:
        awaited: destinations whose delivered calls stay.
    """
    calls = of_table[0].sql()
    needed = [
        and_(
            queue.goes_there(calls.c.xid),
            sa.literal(queue.destination in awaited)
            | calls.c.xid.not_in(_done(queue, retention)),
        )
        for queue in of_table
    ]
    to = array([queue.destination for queue in of_table], type_=sa.Text)
    return _remove(connection, calls, not_(sa.or_(*needed)), to)


def _done(queue: Queue, retention: timedelta) -> sa.Select[Any]:
    """Transactions that a destination has answered, and a refresh has covered."""
    done = select(delivery.c.xid).where(_delivered_before(queue, retention))
    if queue.group_id is not None:
        return done  # no refresh reads a group's table by its queue
    covered = select(queue_catalog).where(queue_catalog.c.id == queue.id).subquery()
    return done.where(not_(beyond(covered.c.covered_batch, covered.c.covered_order)))


def _foldable(connection: Connection, queues: Sequence[Queue]) -> list[Queue]:
    """Queues of snapshots to destinations for which no call of a snapshot waits.

    One that waits may mean a row that an older call made and the destination parked:
    until a refresh covers that, the site shows the row.
    """
    mine = [queue for queue in queues if queue.extra_table is not None]
    waiting = {one.destination for one in mine if undelivered_calls(connection, one)}
    return [queue for queue in mine if queue.destination not in waiting]


def _fold(connection: Connection, queue: Queue, after: timedelta) -> int:
    """Turn delivered calls that no refresh has covered for long into extra keys."""
    calls = queue.sql()
    old = select(delivery).where(_delivered_before(queue, after)).subquery()
    extra = queue.extra
    assert extra is not None
    covered = select(queue_catalog).where(queue_catalog.c.id == queue.id).subquery()
    uncovered = beyond(covered.c.covered_batch, covered.c.covered_order, of=old)
    for keys in queue.every_key(calls):
        columns = [*keys.selected_columns.keys(), "reason", "batch_no", "order_no"]
        rows = (
            keys.add_columns(sa.literal("folded"), old.c.batch, old.c.order_no)
            .join(old, old.c.xid == calls.c.xid)
            .join(covered, sa.true())
            .where(uncovered)
        )
        connection.execute(sa.insert(extra).from_select(columns, rows))
    gone = select(old.c.xid).join(covered, uncovered)
    to = array([queue.destination], type_=sa.Text)
    return _remove(connection, calls, calls.c.xid.in_(gone), to)


def _remove(
    connection: Connection,
    calls: TableClause,
    gone: sa.ColumnElement[bool],
    to: sa.ColumnElement[Any],
) -> int:
    """Remove calls, and note the last of their places: they cannot be pushed again.

    Both in one statement: if a refresh covered more calls in between, these would go
    unnoted. What came to a destination by another way is in no batch of its own. Where
    else a transaction was sent, other calls of it may stay.

    Parameters:
        gone: which calls.
        to: the destinations of a call.

    Returns:
        How many calls were removed.
    """
    returned = sa.delete(calls).where(gone).returning(calls.c.xid, to.label("names"))
    removed = returned.cte("removed")
    batch, here = delivery.c.batch, destination.c
    sent = sa.exists().where(
        removed.c.xid == delivery.c.xid,
        delivery.c.destination == func.any(removed.c.names),
    )
    number = func.max(ledger.original(delivery.c.xid))
    last = (
        select(
            delivery.c.destination,
            func.max(array([batch, delivery.c.order_no])).label("place"),
            number.filter(batch < 0).label("settled"),
        )
        .where(sent, batch.is_not(None))
        .group_by(delivery.c.destination)
        .cte("last")
    )
    before = array([here.purged_batch, here.purged_order])
    place = func.greatest(before, last.c.place, type_=sa.ARRAY(sa.BigInteger))
    noted = (
        sa.update(destination)
        .where(here.name == last.c.destination)
        .values(
            purged_batch=place[1],
            purged_order=place[2],
            purged_settled=func.greatest(here.purged_settled, last.c.settled),
        )
    )
    counted = select(func.count()).select_from(removed).add_cte(noted.cte("noted"))
    return connection.scalar(counted) or 0


def _delivered_before(queue: Queue, age: timedelta) -> sa.ColumnElement[bool]:
    return and_(delivery.c.destination == queue.destination, delivered_before(age))


def _purge_transactions(
    connection: Connection, retention: timedelta, began: str
) -> int:
    """Delete transactions that have no calls left in any queue.

    Parameters:
        began: the position at which the purge began. A later transaction may have
            calls in a queue that was made after the queues were listed.
    """
    left = sa.union_all(*call_numbers(connection)).subquery()
    mine = deferred_transaction.c.xid
    # A transaction without a delivery is in no window: its queue was dropped.
    needed = not_delivered_before(retention).where(delivery.c.xid == mine)
    done = and_(
        not_(needed.exists()),
        mine.not_in(select(left.c.xid)),
        not_(position.after(mine, began)),
    )
    gone = connection.execute(sa.delete(deferred_transaction).where(done)).rowcount
    if gone:
        connection.execute(
            sa.delete(delivery_row).where(
                delivery_row.c.xid.not_in(select(deferred_transaction.c.xid)),
                is_delivered(delivery_row),
            )
        )
        forget_batches(connection)
    return gone
