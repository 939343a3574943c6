"""Which transactions in a site's queues need what others there did.

A transaction needs an earlier one if it changed a row that the other had changed, or
refers to a key that the other gave a row. It needs it, too, if it takes away a key that
a row referred to until the other changed that row, or gives a row a unique value that
another row had until then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Text, func, select

from deferred.batches import footprint
from deferred.catalog import delivery, procedure_call
from deferred.queues.queue import Queue
from sites.errors import UnknownTable
from sites.tables.table import Table, describe
from sites.transfer.types import NativeType
from sites.transfer.values import each_of

#: A row that a call changed.
_ROW = "row"
#: A key or unique value that a call gave a row, or took from it.
_GIVEN, _TAKEN = "given", "taken"
#: The key of another row that a call made its row refer to, or refer to no longer.
_REFERRED, _RELEASED = "referred", "released"

#: What an earlier call did, and the later calls that are not possible without it.
_NEEDED_BY = {_ROW: _ROW, _GIVEN: _REFERRED, _RELEASED: _TAKEN, _TAKEN: _GIVEN}


def together(
    connection: Connection, queues: Sequence[Queue], start: set[str]
) -> set[str]:
    """These transactions and those that need them, without any that has to stay.

    Parameters:
        queues: all queues to one destination.
        start: ids of transactions, as text.
    """
    if not start:
        return start
    needs = _Needs(connection, queues)
    every = needs.followed(start)
    if not _must_stay(connection, queues, every):
        return every
    apart = (needs.followed({one}) for one in sorted(start))
    return set().union(*(x for x in apart if not _must_stay(connection, queues, x)))


def among(xid: ColumnElement[Any], xids: set[str]) -> ColumnElement[bool]:
    """Whether a transaction is one of these, given by their ids as text."""
    wanted = "{" + ",".join(sorted(xids)) + "}"
    return xid == func.any(sa.cast(sa.literal(wanted), sa.ARRAY(NativeType("xid8"))))


def _must_stay(connection: Connection, queues: Sequence[Queue], xids: set[str]) -> bool:
    """Whether one of these was sent, calls a procedure, or changes a group's table."""
    sent = delivery.c.batch.is_not(None)
    to = delivery.c.destination.in_({one.destination for one in queues})
    reasons = [
        sa.exists().where(to, sent, among(delivery.c.xid, xids)),
        sa.exists().where(among(procedure_call.c.xid, xids)),
        *(
            sa.exists().select_from(calls).where(among(calls.c.xid, xids))
            for calls in (one.sql() for one in queues if one.group_id is not None)
        ),
    ]
    return bool(connection.scalar(select(sa.or_(*reasons))))


class _Needs:
    """Finds the transactions that need others; the tables are described once."""

    def __init__(self, connection: Connection, queues: Sequence[Queue]) -> None:
        self._connection = connection
        self._entries = sa.union_all(*_described(connection, queues)).cte("entries")

    def followed(self, start: set[str]) -> set[str]:
        """These transactions, those that need them, those that need these, ..."""
        found, latest = set(start), set(start)
        while latest:
            latest = self._next(latest) - found
            found |= latest
        return found

    def _next(self, xids: set[str]) -> set[str]:
        mine, later = self._entries.alias("mine"), self._entries.alias("later")
        needs = sa.or_(
            *(
                sa.and_(mine.c.how == did, later.c.how == then)
                for did, then in _NEEDED_BY.items()
            )
        )
        found = (
            select(sa.cast(later.c.xid, Text))
            .join_from(
                mine,
                later,
                sa.and_(
                    mine.c.entry == later.c.entry,
                    later.c.call_no > mine.c.call_no,
                    needs,
                ),
            )
            .where(among(mine.c.xid, xids))
        )
        return set(self._connection.scalars(found.distinct()))


def _described(
    connection: Connection, queues: Sequence[Queue]
) -> Iterator[sa.Select[Any]]:
    for queue in queues:
        # Somebody may have dropped the table of another snapshot by hand.
        with suppress(UnknownTable):
            yield _entries(queue, describe(connection, queue.base))


def _entries(queue: Queue, table: Table) -> sa.Select[Any]:
    """What the calls of a queue did, by their number: xid, call_no, how, entry."""
    calls = queue.sql()
    part = each_of("parts", ("how", "entry"), _parts(queue, table, calls))
    return (
        select(calls.c.xid, calls.c.call_no, part.c.how, part.c.entry)
        .join_from(calls, part, sa.true())
        .where(part.c.entry.is_not(None))
    )


def _parts(
    queue: Queue, table: Table, calls: sa.TableClause
) -> Iterator[tuple[ColumnElement[str], ColumnElement[Any]]]:
    names = {column.number: column.name for column in table.columns}
    numbers = dict(zip(queue.columns, queue.column_numbers, strict=True))
    places = {names.get(numbers[n]): at for at, n in enumerate(queue.columns, 1)}
    # Columns that are gone have no name, and are part of no key.
    places.pop(None, None)
    carried = [name for name in places if name is not None]
    identity = [names.get(numbers[name], "") for name in queue.identity_columns]

    def image(side: str, named: str, columns: Sequence[str]) -> ColumnElement[Any]:
        values = [calls.c[f"{side}{places[name]}"] for name in columns]
        alike = footprint.alike(table, columns, values)
        missing = sa.or_(*(value.is_(None) for value in values))
        return sa.case((missing, None), else_=footprint.text_of(named, alike))

    def changed(
        named: str, columns: Sequence[str], now: str, before: str
    ) -> Iterator[tuple[ColumnElement[str], ColumnElement[Any]]]:
        old, new = (image(side, named, columns) for side in "on")
        yield sa.literal(now), sa.case((new.is_distinct_from(old), new))
        yield sa.literal(before), sa.case((old.is_distinct_from(new), old))

    for named, columns in footprint.own_keys(table, identity, carried):
        if columns == sorted(identity):
            for side in "on":
                yield sa.literal(_ROW), image(side, named, columns)
        yield from changed(named, columns, _GIVEN, _TAKEN)
    for named, columns in footprint.parent_keys(table, carried):
        yield from changed(named, columns, _REFERRED, _RELEASED)
