"""The queue of a copied database that becomes a site of its own.

Transactions queued before the copy was made belong to the original, which pushes them.
The copy keeps those that only it has.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Connection, or_, select, update

from deferred.catalog import (
    batch,
    deferred_transaction,
    delivery,
    delivery_row,
    destination,
    procedure_call,
)
from deferred.catalog import queue as queue_catalog
from deferred.error_catalog import WITHDRAWN, error_call, error_transaction
from deferred.queues.delivery_rows import write_rows
from deferred.queues.queue import is_delivered, list_queues
from sites.catalog import SCHEMA
from sites.transfer import transport


def leave_to_original(connection: Connection, original: Connection) -> int:
    """Drop transactions that the original has or had; return how many.

    Before this, the site agrees with its destinations on the transactions that were
    delivered (`deferred.batches.reconcile`). Writes the queues and their catalogs; the
    next refresh has to be complete.
    """
    theirs = _take(connection, original)
    shared = sa.exists().where(
        theirs.c.order_no == deferred_transaction.c.order_no,
        theirs.c.start_time == deferred_transaction.c.start_time,
    )
    write_rows(connection)
    delivered = sa.exists().where(
        delivery.c.xid == deferred_transaction.c.xid,
        is_delivered(),
    )
    dropped = connection.execute(
        sa.delete(deferred_transaction).where(or_(shared, delivered))
    ).rowcount
    left = select(deferred_transaction.c.xid)
    connection.execute(sa.delete(delivery_row).where(delivery_row.c.xid.not_in(left)))
    connection.execute(update(delivery_row).values(batch=None))
    connection.execute(sa.delete(batch))
    connection.execute(
        sa.delete(procedure_call).where(procedure_call.c.xid.not_in(left))
    )
    for queue in list_queues(connection):
        calls = queue.sql()
        connection.execute(sa.delete(calls).where(calls.c.xid.not_in(left)))
        if queue.extra_table is not None:
            connection.execute(sa.delete(sa.table(queue.extra_table, schema=SCHEMA)))
    _leave_withdrawn(connection, original)
    _begin_anew(connection)
    return dropped


def _leave_withdrawn(connection: Connection, original: Connection) -> None:
    """Drop changes that the original withdrew: there they are decided about."""
    error = error_transaction.c
    withdrawn = error.reason == WITHDRAWN
    facts = (error.order_no, error.start_time)
    theirs = {tuple(row) for row in original.execute(select(*facts).where(withdrawn))}
    mine = connection.execute(select(error.id, *facts).where(withdrawn)).all()
    shared = tuple(number for number, *known in mine if tuple(known) in theirs)
    for table, column in (
        (error_call, error_call.c.error_id),
        (error_transaction, error.id),
    ):
        connection.execute(sa.delete(table).where(column.in_(shared)))


def _take(connection: Connection, original: Connection) -> sa.TableClause:
    # What it has withdrawn is in its queue no more, and is decided about there.
    queued, withdrawn = deferred_transaction.c, error_transaction.c
    wanted = sa.union_all(
        select(queued.order_no, queued.start_time),
        select(withdrawn.order_no, withdrawn.start_time).where(
            withdrawn.reason == WITHDRAWN
        ),
    )
    return transport.copied(
        original,
        select(*wanted.subquery().c),
        connection,
        "snaptide_original",
        order_no=sa.BigInteger,
        start_time=sa.DateTime(timezone=True),
    )


def _begin_anew(connection: Connection) -> None:
    """Start all destinations from zero: none has a marker of this site yet."""
    connection.execute(update(queue_catalog).values(covered_batch=0, covered_order=0))
    connection.execute(
        update(destination).values(
            incarnation=None,
            batch_no=0,
            batch_id=None,
            batch_end=0,
            previous_id=None,
            previous_end=0,
            purged_batch=0,
            purged_order=0,
            purged_settled=None,
            last_error=None,
        )
    )
