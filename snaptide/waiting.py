"""The transactions that wait at a site for a destination, in their order.

They are read from the queue, as pushes will carry them. What the destination has
answered since the last push is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Text, and_, cast, func, select

from deferred.catalog import deferred_transaction, delivery
from deferred.queues.backlog import Backlog, backlog_of
from deferred.queues.queue import Queue, changes_key, is_delivered, list_queues
from sites import Site
from sites.capture import position
from sites.catalog import SCHEMA
from snaptide.asking import asking

_ON_THE_WAY = sa.table(
    "deftrandest",
    *map(sa.column, ("deferred_tran_id", "delivery_order", "dblink", "batch", "calls")),
    schema=SCHEMA,
)
_CALLS = sa.table(
    "defcall",
    *map(sa.column, ("callno", "deferred_tran_id", "destination", "schemaname")),
    *map(sa.column, ("tablename", "operation", "old_values", "new_values")),
    schema=SCHEMA,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingTransaction:
    """A transaction that the destination has not answered, as far as known."""

    id: str
    #: its place in the order in which the destination gets them
    order: int
    user: str
    began: datetime | None
    #: the site where it was made, if a push applied it here
    origin: str | None
    calls: int
    #: the batch that carries it; None until one is cut
    batch: int | None
    #: the last transaction before it that changes one of its rows and waits, too
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingQueue:
    """A part of what waits for a destination."""

    backlog: Backlog
    now: datetime
    #: how many transactions there are in all
    total: int
    transactions: Sequence[WaitingTransaction]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingCall:
    """A call of a waiting transaction."""

    number: int
    table: str
    #: as the view `defcall` has it: I, U, M, D, R, P
    operation: str
    old: Mapping[str, str | None] | None
    #: of a procedure, its arguments
    new: Any


def waiting(site: Site, name: str, *, limit: int, offset: int) -> WaitingQueue:
    """A part of what waits for a destination, in its order.

    Raises:
        NoSuchDestination: nothing here is queued for it.
    """
    found = _found(name).order_by(_ON_THE_WAY.c.delivery_order)
    with asking(site) as connection:
        backlog = backlog_of(connection, name)
        total = select(func.count()).select_from(_found(name).subquery())
        rows = connection.execute(found.limit(limit).offset(offset)).all()
        after = _after(connection, name, [row.id for row in rows])
        return WaitingQueue(
            backlog=backlog,
            now=connection.execute(select(func.now())).scalar_one(),
            total=connection.scalar(total) or 0,
            transactions=[
                WaitingTransaction(**row._mapping, after=after.get(row.id))
                for row in rows
            ],
        )


def calls_of(
    site: Site, name: str, transaction: str, *, limit: int, offset: int
) -> tuple[int, Sequence[WaitingCall]]:
    """How many calls a transaction has for a destination, and a part of them."""
    at = _CALLS.c
    mine = and_(at.destination == name, at.deferred_tran_id == transaction)
    columns = (at.callno, at.schemaname, at.tablename, at.operation)
    wanted = select(*columns, at.old_values, at.new_values).where(mine)
    with asking(site) as connection:
        total = connection.scalar(select(func.count()).where(mine)) or 0
        some = wanted.order_by(at.callno).limit(limit).offset(offset)
        return total, [_call(*row) for row in connection.execute(some)]


def _call(
    number: int, schema: str | None, table: str, operation: str, old: Any, new: Any
) -> WaitingCall:
    full = table if schema is None else f"{schema}.{table}"
    return WaitingCall(number=number, table=full, operation=operation, old=old, new=new)


def _found(name: str) -> sa.Select[Any]:
    on, at = _ON_THE_WAY.c, deferred_transaction.c
    return (
        select(
            on.deferred_tran_id.label("id"),
            on.delivery_order.label("order"),
            at.origin_user.label("user"),
            at.start_time.label("began"),
            at.origin,
            on.calls,
            on.batch,
        )
        .join(deferred_transaction, cast(at.xid, Text) == on.deferred_tran_id)
        .where(on.dblink == name)
    )


def _after(connection: Connection, name: str, ids: Sequence[str]) -> dict[str, str]:
    """For some transactions, the last one before that has one of their rows."""
    last: dict[str, tuple[int, str]] = {}
    for queue in list_queues(connection, name) if ids else ():
        for id_, number, other in connection.execute(_before(queue, ids)):
            last[id_] = max(last.get(id_, (0, "")), (number, other))
    return {id_: other for id_, (_, other) in last.items()}


def _before(queue: Queue, ids: Sequence[str]) -> sa.Select[Any]:
    """For the rows of some transactions, the one before that has the row, and a number
    that is higher the later it is."""
    calls = queue.sql()
    answered = sa.exists().where(
        delivery.c.destination == queue.destination,
        delivery.c.xid == calls.c.xid,
        is_delivered(),
    )
    waits = and_(queue.goes_there(calls.c.xid), sa.not_(answered))
    every = sa.union_all(*_keys(queue, calls, waits)).subquery()
    row = [every.c[f"k{n}"] for n in range(1, len(queue.identity_columns) + 1)]
    first = func.min(every.c.call_no)
    each = (
        select(
            every.c.xid,
            func.lag(first).over(partition_by=row, order_by=first).label("number"),
            func.lag(every.c.xid).over(partition_by=row, order_by=first).label("other"),
        )
        .group_by(every.c.xid, *row)
        .subquery()
    )
    return select(
        cast(each.c.xid, Text), each.c.number, cast(each.c.other, Text)
    ).where(
        each.c.other.is_not(None), each.c.xid.in_([position.xid8(one) for one in ids])
    )


def _keys(
    queue: Queue, calls: sa.TableClause, which: ColumnElement[bool]
) -> Iterator[sa.Select[Any]]:
    """The keys of calls: both of a call that changes its row's key."""
    at = (calls.c.xid, calls.c.call_no)
    yield select(*at, *queue.keys(calls)).where(which)
    yield select(*at, *queue.new_keys(calls)).where(which, changes_key(calls))
