"""New transaction ids for the queue of a site that was restored into a new cluster.

After a dump and a restore into a new cluster, transaction ids start again: those in
the queue mean nothing, and PostgreSQL assigns them to users a second time. A repair
moves them to numbers that no cluster ever reaches, and opens one window over all
transactions that are in none yet (docs/explanation/identity.md).
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import BigInteger, ColumnElement, Connection, Text, func, select
from sqlalchemy.dialects.postgresql import insert

from deferred.batches.cut import deliveries
from deferred.catalog import (
    deferred_transaction,
    delivery_row,
    destination,
    procedure_call,
    route,
)
from deferred.queues.define import replace_functions
from deferred.queues.delivery_rows import write_rows
from deferred.queues.queue import Queue, list_queues
from sites.capture import position
from sites.capture.position import STRETCH
from sites.transfer.types import PgSnapshot, Xid8


def lock(connection: Connection) -> None:
    """Wait for writers to finish, and block new ones.

    None may commit under an id that is moved away. Call it before anything else in a
    REPEATABLE READ transaction.
    """
    connection.execute(sa.text("SET LOCAL lock_timeout = '2s'"))
    connection.execute(
        sa.text("LOCK TABLE snaptide.deferred_transaction IN SHARE ROW EXCLUSIVE MODE")
    )


def rebase_transaction_ids(connection: Connection, generation: int) -> int:
    """Give all queued transactions ids that can never come again; return how many.

    Writes the queues, extra keys, deferred_transaction, delivery_row, batch,
    destination, route.
    Needs `lock`, so that it sees all writers.

    Parameters:
        generation: the number of this repair.
    """
    queues = list_queues(connection)
    write_rows(connection)
    _part(connection, queues, (2 * generation + 1) * STRETCH)
    shift = 2 * generation * STRETCH
    moved = _move(connection, deferred_transaction, shift)
    _move(connection, delivery_row, shift)
    _move(connection, procedure_call, shift)
    for queue in queues:
        _move(connection, queue.sql(), shift)
        if queue.extra is not None:
            # Every later position shows id 3, the first that PostgreSQL assigns.
            connection.execute(sa.update(queue.extra).values(xid=position.xid8(3)))
    _move_routes(connection, shift)
    for name in connection.scalars(select(destination.c.name)).all():
        connection.execute(deliveries(connection, name))
    connection.execute(
        sa.update(destination).values(
            window_end=func.pg_current_snapshot(),
            # Ask the destination before anything is pushed.
            incarnation=None,
        )
    )
    replace_functions(connection)
    return moved


def _move_routes(connection: Connection, shift: int) -> None:
    """Move the start of routes too, so that earlier transactions are not sent now."""
    begin = sa.cast(route.c.since, Text)
    for since in connection.scalars(select(begin).distinct()).all():
        if int(since.split(":")[1]) < STRETCH:
            moved = position.moved(since, shift)
            connection.execute(
                sa.update(route)
                .where(begin == since)
                .values(since=sa.cast(sa.literal(moved), PgSnapshot()))
            )


def _part(connection: Connection, queues: list[Queue], shift: int) -> None:
    """Give other ids to transactions that got the id of an older one.

    Their calls have higher numbers than the older transaction's place in the order.
    """
    for calls in (procedure_call, *(queue.sql() for queue in queues)):
        older = sa.exists().where(
            deferred_transaction.c.xid == calls.c.xid,
            deferred_transaction.c.order_no >= calls.c.call_no,
        )
        stray = sa.and_(calls.c.xid < position.xid8(STRETCH), sa.not_(older))
        found = select(_moved(calls.c.xid, shift), func.session_user()).where(stray)
        connection.execute(
            insert(deferred_transaction)
            .from_select(["xid", "origin_user"], found.distinct())
            .on_conflict_do_nothing()
        )
        connection.execute(
            sa.update(calls).where(stray).values(xid=_moved(calls.c.xid, shift))
        )


def _move(connection: Connection, table: Any, shift: int) -> int:
    return connection.execute(
        sa.update(table)
        .where(table.c.xid < position.xid8(STRETCH))
        .values(xid=_moved(table.c.xid, shift))
    ).rowcount


def _moved(xid: ColumnElement[Any], shift: int) -> ColumnElement[Any]:
    number = sa.cast(sa.cast(xid, Text), BigInteger) + sa.literal(shift, BigInteger)
    return sa.cast(sa.cast(number, Text), Xid8())
