"""Changing which columns the calls of a snapshot's queue carry, while it is in use.

Images are called after the places of their columns: o1, n1, o2, n2, ... So a renamed
column keeps its images, a new one comes last, and those behind a dropped one move up.
Call it with the base table locked and pushers kept out (`pusher.keep_out`): a push
works with the columns that it read when it began.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, or_, select

from deferred.catalog import delivery
from deferred.catalog import queue as queue_catalog
from deferred.queues import define, given_values, queue_function
from deferred.queues.queue import Queue, delivery_of, is_delivered
from sites.capture import position
from sites.catalog import SCHEMA
from sites.names import QualifiedName
from sites.tables import columns as tables_columns
from sites.tables import ddl, locks
from sites.tables.ddl import NewColumn
from sites.tables.table import Table


def waits(
    connection: Connection,
    queue: Queue,
    *,
    changing: Collection[str] | None = None,
    since: str = position.START,
) -> bool:
    """Whether a call waits that the destination has not answered, as far as known.

    Parameters:
        changing: only calls that give one of these columns a value. The default that
            an insert takes is none.
        since: only calls that this position of the site has not seen.
    """
    calls = queue.sql()
    wanted = [sa.not_(is_delivered()), queue.goes_there(calls.c.xid)]
    if since != position.START:
        wanted.append(position.since(calls.c.xid, since))
    if changing is not None:
        defaults = given_values.defaults(connection, queue, changing)
        gives = (given_values.by_call(queue, calls, *one) for one in defaults.items())
        wanted.append(or_(*gives))
    found = (
        select(calls.c.xid)
        .select_from(calls.outerjoin(delivery, delivery_of(queue, calls)))
        .where(*wanted)
    )
    return bool(connection.scalar(select(found.exists())))


def add(
    connection: Connection,
    queue: Queue,
    base: Table,
    target: Table,
    added: Mapping[str, str | None],
    *,
    partial: bool,
) -> None:
    """Have the calls of a queue carry further columns from now on.

    None of its calls may wait. Those that are delivered get the value in both images
    that the columns give to rows of before, in case a restored destination asks for
    them again.

    Parameters:
        base: the base table, which has the columns.
        target: the destination's table.
        added: by column, an immutable expression for that value; None for NULL.
        partial: the target has columns that are still not carried.
    """
    carried = (*queue.columns, *added)
    images = [
        NewColumn(
            name=f"{side}{carried.index(name) + 1}",
            type=define.image_type(base.column(name)).name,
            default=value,
        )
        for name, value in added.items()
        for side in ("o", "n")
    ]
    ddl.add_columns(connection, QualifiedName(SCHEMA, queue.queue_table), images)
    numbers = [base.column(name).number for name in added]
    theirs = [target.column(name).number for name in added]
    _carry(
        connection,
        replace(
            queue,
            columns=carried,
            column_numbers=(*queue.column_numbers, *numbers),
            target_numbers=(*(queue.target_numbers or ()), *theirs),
            partial=partial,
        ),
        known=queue.target_numbers is not None and queue.target_oid == target.oid,
    )


def rename(connection: Connection, queue: Queue, names: Mapping[str, str]) -> Queue:
    """Send what the calls of a queue say of columns to others of the destination.

    Parameters:
        names: the columns' names at the destination, by those that they had.

    Returns:
        The queue as it is now.
    """
    return _carry(
        connection,
        replace(queue, columns=tuple(names.get(name, name) for name in queue.columns)),
    )


def widen(
    connection: Connection, queue: Queue, base: Table, names: Collection[str]
) -> Queue:
    """Have the calls of a queue carry some columns with the types that they have now.

    Parameters:
        base: the base table, whose columns are wider already.
        names: those of its columns.

    Returns:
        The queue as it is now.
    """
    types = {
        f"{side}{queue.columns.index(name) + 1}": define.image_type(
            base.column(name)
        ).name
        for name in names
        for side in ("o", "n")
    }
    define.show_calls(connection, without=queue)
    table = QualifiedName(SCHEMA, queue.queue_table)
    tables_columns.widen(connection, table, types)
    return _carry(connection, queue)


def drop(
    connection: Connection, queue: Queue, gone: Collection[str], *, partial: bool
) -> Queue:
    """Have the calls of a queue carry some columns no more; their images are lost.

    Parameters:
        partial: the target has columns that are not carried.

    Returns:
        The queue as it is now.
    """
    table = QualifiedName(SCHEMA, queue.queue_table)
    define.show_calls(connection, without=queue)
    left, dropped = list[int](), list[int]()
    for place, name in enumerate(queue.columns, 1):
        (dropped if name in gone else left).append(place)
    for side in ("o", "n"):
        tables_columns.drop(connection, table, [f"{side}{n}" for n in dropped])
        moved = {f"{side}{n}": f"{side}{to}" for to, n in enumerate(left, 1) if n != to}
        tables_columns.rename(connection, table, moved)
    return _carry(
        connection,
        replace(
            queue,
            columns=_at(queue.columns, left),
            column_numbers=_at(queue.column_numbers, left),
            target_numbers=_at(queue.target_numbers or (), left),
            partial=partial,
        ),
        known=queue.target_numbers is not None,
    )


def _at(values: Sequence[Any], places: Sequence[int]) -> tuple[Any, ...]:
    return tuple(values[place - 1] for place in places) if values else ()


def _carry(connection: Connection, queue: Queue, *, known: bool = True) -> Queue:
    """Note what a queue carries now, and replace what depends on it.

    Parameters:
        known: which columns of the target its calls were made for.
    """
    known = known and queue.target_numbers is not None
    locks.wait_turn(connection, define.WORK)
    connection.execute(
        sa.update(queue_catalog)
        .where(queue_catalog.c.id == queue.id)
        .values(
            columns=list(queue.columns),
            column_numbers=list(queue.column_numbers),
            target_oid=queue.target_oid if known else None,
            target_numbers=list(queue.target_numbers or ()) if known else None,
            partial=queue.partial,
        )
    )
    queue_function.replace(connection, define.capture_of(connection, queue))
    define.show_calls(connection)
    return queue if known else replace(queue, target_oid=None, target_numbers=None)
