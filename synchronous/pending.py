"""Refuses synchronous changes that depend on calls which wait for a push."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, FromClause, Select, select

from deferred.catalog import deferred_transaction, delivery
from deferred.queues.queue import Queue, is_delivered
from sites.tables.table import ForeignKey
from sites.transfer.types import Xid8
from synchronous.errors import PendingCalls


def refuse(connection: Connection, queue: Queue, xid: str, after: int) -> None:
    """Refuse calls of an open transaction on rows with calls that wait for a push.

    Applied now, they would overtake those. A synchronous queue has none: it was
    pushed empty, and need not be asked.

    Parameters:
        xid: the id of the open transaction.
        after: only its calls with a higher number.

    Raises:
        PendingCalls.
    """
    calls = queue.sql()
    every = [
        one.add_columns(calls.c.xid, calls.c.call_no) for one in queue.every_key(calls)
    ]
    mine, theirs = (sa.union_all(*every).subquery(name) for name in ("mine", "theirs"))
    keys = [f"k{n}" for n in range(1, len(queue.identity_columns) + 1)]
    same = sa.and_(*(mine.c[key] == theirs.c[key] for key in keys))
    met = select(*(mine.c[key] for key in keys)).select_from(mine.join(theirs, same))
    _refuse(connection, queue, queue.identity_columns, met, (mine, theirs), xid, after)


def refuse_children(
    connection: Connection,
    queue: Queue,
    keys: Sequence[ForeignKey],
    queues: Collection[Queue],
    xid: str,
    after: int,
) -> None:
    """Refuse calls that refer to a row which waits for a push.

    At the master they would find no such row, or one that another site has made.

    Parameters:
        keys: the foreign keys of the master table.
        queues: the queues of the site.

    Raises:
        PendingCalls.
    """
    for key in keys:
        for parent in queues:
            if (
                parent.synchronous
                or parent.destination != queue.destination
                or parent.target != key.parent
                or not set(key.parent_columns) <= set(parent.columns)
                or not set(key.columns) <= set(queue.columns)
            ):
                continue
            mine, theirs = queue.sql().alias("mine"), parent.sql().alias("theirs")
            own = _places(queue, key.columns)
            its = _places(parent, key.parent_columns)
            refers = [
                mine.c[f"n{a}"] == theirs.c[f"n{b}"]
                for a, b in zip(own, its, strict=True)
            ]
            met = (
                select(*(theirs.c[f"n{n}"] for n in its))
                .select_from(mine.join(theirs, sa.and_(*refers)))
                .where(_changed(mine, own), _changed(theirs, its))
            )
            made = (mine, theirs)
            _refuse(connection, parent, key.parent_columns, met, made, xid, after)


def _refuse(
    connection: Connection,
    queue: Queue,
    columns: Sequence[str],
    met: Select[Any],
    calls: tuple[FromClause, FromClause],
    xid: str,
    after: int,
) -> None:
    """Refuse calls of an open transaction that meet calls which wait for a push.

    Parameters:
        queue: the queue of the calls that wait.
        columns: the columns that `met` selects.
        calls: the calls of the open transaction, and those that they meet.
    """
    mine, theirs = calls
    waiting = ~sa.exists().where(
        delivery.c.destination == queue.destination,
        delivery.c.xid == deferred_transaction.c.xid,
        is_delivered(),
    )
    ours = sa.literal_column(f"'{int(xid)}'", Xid8())
    found = connection.execute(
        met.join(deferred_transaction, deferred_transaction.c.xid == theirs.c.xid)
        .where(mine.c.xid == ours, mine.c.call_no > after)
        .where(theirs.c.xid != ours, waiting)
        .limit(1)
    ).one_or_none()
    if found is not None:
        key = dict(zip(columns, found, strict=True))
        raise PendingCalls(
            f"Row {key} of {queue.snapshot} has changes that are waiting for a push "
            f"to {queue.destination}.",
            snapshot=queue.snapshot,
            key=key,
        )


def _places(queue: Queue, columns: Sequence[str]) -> list[int]:
    return [queue.columns.index(name) + 1 for name in columns]


def _changed(calls: FromClause, places: Sequence[int]) -> ColumnElement[bool]:
    """Whether a call changes these values of its row."""
    return sa.or_(
        *(calls.c[f"o{n}"].is_distinct_from(calls.c[f"n{n}"]) for n in places)
    )
