"""Events of a row that the queue of a site knows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Row, Select, Text, func, select

from deferred.batches import procedure_call
from deferred.catalog import deferred_transaction, delivery
from deferred.parked import image
from deferred.queues.queue import Queue, delivered_at, delivery_of
from deferred.row_history.events import CurrentRow, Event, Key, Wanted, operation
from sites.tables.table import Table, describe


def changes(
    connection: Connection, site: str, queue: Queue, wanted: Wanted
) -> list[Event]:
    """The changes of a row that a queue still holds, sent and unsent."""
    calls = queue.sql()
    transaction = deferred_transaction.c
    rows = connection.execute(
        _calls(queue, calls)
        .add_columns(
            transaction.origin_user,
            func.coalesce(transaction.made_at, transaction.start_time).label("made_at"),
            transaction.origin,
            transaction.origin_transaction,
            delivered_at().label("delivered_at"),
            procedure_call.maker(calls, queue.destination).label("procedure"),
        )
        .join(deferred_transaction, transaction.xid == calls.c.xid)
        .outerjoin(delivery, delivery_of(queue, calls))
        .where(_is(queue, calls, wanted), queue.goes_there(calls.c.xid))
    )
    return [_event(site, queue, row) for row in rows]


def other_keys(connection: Connection, queue: Queue, wanted: Wanted) -> Iterator[Key]:
    """Keys that a row had before and after changes of its key, by a queue.

    A change of key may be queued as a delete and an insert. They belong together if no
    other pair of the transaction matches: only one has all other values the same, or
    there is only one pair.
    """
    calls = queue.sql()
    base = describe(connection, queue.base)
    for row in connection.execute(
        _calls(queue, calls).where(_is(queue, calls, wanted))
    ).all():
        for one in (row.old, row.new):
            key = wanted.key_in(one)
            if key is not None:
                yield key
        if row.moved and row.kind in "IDid":
            other = _other_half(connection, queue, base, row, wanted)
            if other is not None:
                yield other


def standing(
    connection: Connection, site: str, name: str, table: Table, wanted: Wanted
) -> list[CurrentRow]:
    """The row as it is now, under each of its keys; one without a row if absent."""
    rows = table.sql()
    images = image.as_json(table.names, [rows.c[one] for one in table.names])
    found = connection.scalars(
        select(images).where(wanted.found(lambda one: rows.c[one]))
    ).all()
    return [CurrentRow(site=site, name=name, row=row) for row in found or [None]]


def _calls(queue: Queue, calls: sa.TableClause) -> Select[*tuple[Any, ...]]:
    kind = sa.cast(calls.c.kind, Text)
    numbers = range(1, len(queue.columns) + 1)
    old, new = (
        image.as_json(queue.columns, [calls.c[f"{side}{n}"] for n in numbers])
        for side in "on"
    )
    return select(
        calls.c.call_no,
        sa.cast(calls.c.xid, Text).label("xid"),
        kind.label("kind"),
        calls.c.moved,
        sa.case((kind.not_in(("I", "i")), old)).label("old"),
        sa.case((kind.not_in(("D", "d")), new)).label("new"),
    ).select_from(calls)


def _is(queue: Queue, calls: sa.TableClause, wanted: Wanted) -> ColumnElement[bool]:
    """Whether a call has the row as its old or its new image."""
    return sa.or_(*(wanted.found(_values(queue, calls, side)) for side in "on"))


def _values(queue: Queue, calls: sa.FromClause, side: str) -> Any:
    return lambda name: calls.c[f"{side}{queue.columns.index(name) + 1}"]


def _other_half(
    connection: Connection, queue: Queue, base: Table, row: Row[Any], wanted: Wanted
) -> Key | None:
    """The key on the other side of a change of key; None if it is not certain."""
    mine, theirs = queue.sql().alias("mine"), queue.sql().alias("theirs")
    here, there = ("n", "o") if row.kind in "Ii" else ("o", "n")
    opposite = {"I": "D", "D": "I", "i": "d", "d": "i"}[row.kind]
    key = [column.name for column in wanted.columns]
    same = [
        base.column(name).same_as(
            _values(queue, mine, here)(name), _values(queue, theirs, there)(name)
        )
        for name in queue.columns
        if name not in key
    ]
    values = [sa.cast(_values(queue, theirs, there)(name), Text) for name in key]
    pairs = (
        select(*values)
        .join_from(mine, theirs, theirs.c.xid == mine.c.xid)
        .where(mine.c.call_no == row.call_no, theirs.c.moved)
        .where(sa.cast(theirs.c.kind, Text) == opposite)
        .limit(2)
    )
    for narrowed in (pairs.where(sa.and_(sa.true(), *same)), pairs):
        found = connection.execute(narrowed).all()
        if len(found) == 1:
            return tuple(found[0])
    return None


def _event(site: str, queue: Queue, row: Row[Any]) -> Event:
    return Event(
        at=row.made_at,
        site=site,
        kind="change",
        operation=operation(row.kind),
        origin=row.origin or site,
        transaction=row.origin_transaction or row.xid,
        user=row.origin_user,
        old=row.old,
        new=row.new,
        destination=queue.destination,
        delivered_at=row.delivered_at,
        procedure=row.procedure if row.kind.islower() else None,
        number=row.call_no,
    )
