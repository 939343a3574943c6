"""Which transactions of a batch share rows or values, as the origin's queue shows it.

Two transactions share something if both hold the same row or unique value, or if one
refers to a row that the other holds. Facts that only the master knows, such as the
values of its own rows, are not looked at: a stream that meets one finds out when it
applies the transaction (`deferred.pushing.stream`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import sqlalchemy as sa
from sqlalchemy import BigInteger, ColumnElement, Select, Subquery, func, select

from deferred.batches import footprint
from deferred.batches.batch import within
from deferred.batches.shipment import Shipment
from deferred.catalog import delivery
from deferred.queues.queue import Queue
from sites.tables.table import Table
from sites.transfer.values import each_of, unsized
from sites.writing.staged import Staged


def last_shared(shipment: Shipment, after: int, most: int) -> dict[int, int]:
    """Find, for each transaction, the last one before it that it shares something with.

    Parameters:
        after: order number of the transaction before the first one.
        most: transactions with more calls than this are left out.

    Returns:
        Order number -> order number; transactions that share nothing are left out.
    """
    if not shipment.queues:
        return {}
    entries = _entries(shipment, after, most)
    # Two references to one parent do not meet.
    holder = sa.case((entries.c.held, entries.c.order_no))
    shared = sa.case(
        (entries.c.held, _last_before(entries, entries.c.order_no)),
        else_=_last_before(entries, holder),
    )
    found = select(entries.c.order_no, shared.label("shared")).subquery()
    rows = shipment.origin.execute(
        select(found.c.order_no, func.max(found.c.shared))
        .where(found.c.shared.is_not(None))
        .group_by(found.c.order_no)
    )
    return {row[0]: row[1] for row in rows}


def _last_before(entries: Subquery, number: ColumnElement[int]) -> ColumnElement[int]:
    return func.max(number).over(
        partition_by=entries.c.entry, order_by=entries.c.order_no, range_=(None, -1)
    )


def _entries(shipment: Shipment, after: int, most: int) -> Subquery:
    """The values that each transaction holds or refers to: order_no, held, hash."""
    transactions = (
        select(delivery.c.xid, delivery.c.order_no)
        .where(
            within(shipment.batch, after, shipment.batch.end), delivery.c.calls <= most
        )
        .subquery()
    )
    each = [
        _calls(queue, staged, transactions)
        for queue, staged in zip(shipment.queues, shipment.staged, strict=True)
    ]
    return sa.union_all(*each).subquery()


def _calls(
    queue: Queue, staged: Staged, transactions: Subquery
) -> Select[tuple[int, bool, int]]:
    calls = queue.sql()
    part = each_of("parts", ("held", "entry"), _parts(queue, staged, calls))
    return (
        select(
            transactions.c.order_no,
            part.c.held,
            sa.cast(func.hashtextextended(part.c.entry, 0), BigInteger).label("entry"),
        )
        .select_from(
            calls.join(transactions, transactions.c.xid == calls.c.xid).join(
                part, sa.true()
            )
        )
        .where(part.c.entry.is_not(None))
    )


def _parts(
    queue: Queue, staged: Staged, calls: sa.TableClause
) -> Iterator[tuple[ColumnElement[bool], ColumnElement[str]]]:
    """Rows, unique values and parents in the images of a call; NULL if it has none."""
    table, carried = staged.table, staged.columns
    for named, columns in footprint.own_keys(table, staged.identity, carried):
        for entry in _values(queue, table, calls, named, columns):
            yield sa.true(), entry
    for named, columns in footprint.parent_keys(table, carried):
        for entry in _values(queue, table, calls, named, columns):
            yield sa.false(), entry


def _values(
    queue: Queue,
    table: Table,
    calls: sa.TableClause,
    named: str,
    columns: Sequence[str],
) -> Iterator[ColumnElement[str]]:
    """The values of these columns in the old and in the new image, as text."""
    same = _of_same_types(queue, table)
    for side in "on":
        values = [calls.c[f"{side}{queue.columns.index(c) + 1}"] for c in columns]
        alike = [
            table.column(name).alike(value) if name in same else value
            for name, value in zip(columns, values, strict=True)
        ]
        text = footprint.text_of(named, alike)
        yield sa.case(
            (sa.or_(*(value.is_(None) for value in values)), None), else_=text
        )


def _of_same_types(queue: Queue, table: Table) -> set[str]:
    """The columns that have the same types here and at the destination, or users'."""
    return {
        name
        for name, type_ in zip(queue.columns, queue.types, strict=True)
        if name in table.names
        and (
            unsized(type_ or "") == unsized((there := table.column(name)).recorded)
            or (type_ is None and "." in there.type)
        )
    }
