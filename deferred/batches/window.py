"""Statements that select the transactions of a window, and begin a batch of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, FromClause, func, literal, select

from deferred.catalog import batch as batch_catalog
from deferred.catalog import deferred_transaction, delivery_row, destination

#: The number of a new batch, as a parameter.
NUMBER = sa.bindparam("number", 0, sa.BigInteger)

#: The columns of `delivery_row` for a transaction that is in no batch yet.
COLUMNS = ("destination", "xid", "order_no", "calls")


def beginning(
    name: str,
    end: ColumnElement[int],
    listed: FromClause,
    said: FromClause | None = None,
    **values: Any,
) -> sa.Select[Any]:
    """Make a new batch current, and list its transactions for the ledger.

    Takes the fields of `cut.New`. Writes and returns nothing if it has none.

    Parameters:
        end: the order number of its last transaction; NULL if there is none.
        listed: its lists, as `ledger.listing_in` takes them.
        said: what the row of the batch says of them, by the names of its columns; None
            if each has a row of its own.
        values: new values of other columns of the destination.
    """
    begun = (
        sa.update(destination)
        .where(destination.c.name == name, end.is_not(None))
        .values(
            batch_no=NUMBER,
            batch_id=sa.bindparam("id", None, destination.c.batch_id.type),
            batch_end=end,
            traceparent=sa.bindparam("trace", None, sa.Text),
            previous_id=destination.c.batch_id,
            previous_end=destination.c.batch_end,
            **values,
        )
        .returning(destination.c.batch_end)
        .cte("begun")
    )
    row, names = select(literal(name), NUMBER).select_from(begun), list[str]()
    if said is not None:
        row, names = row.add_columns(*said.c).join(said, sa.true()), said.c.keys()
    known = sa.insert(batch_catalog).from_select(["destination", "number", *names], row)
    return (
        select(begun.c.batch_end, *listed.c)
        .join_from(begun, listed, sa.true())
        .add_cte(known.cte("known"))
    )


def insert(rows: sa.Select[Any], *more: str) -> sa.Insert:
    """Insert rows that have `COLUMNS` into `delivery_row`.

    Parameters:
        more: the names of other columns that they have, in this order.
    """
    return sa.insert(delivery_row).from_select([*COLUMNS, *more], rows)


def rows(
    recent: Sequence[sa.Select[Any]],
    name: str,
    when: Callable[[ColumnElement[Any]], ColumnElement[bool]] | None = None,
    *,
    all_of_them: bool = False,
) -> sa.Select[Any]:
    """Select the transactions with calls to a destination, with the columns `COLUMNS`.

    Parameters:
        recent: selects of xid and call_no from the queues of those calls.
        when: makes of a transaction's id the condition that it is wanted; by default,
            all are.
        all_of_them: also those without calls to the destination, with NULL for their
            count.
    """
    tran = deferred_transaction
    new: list[ColumnElement[bool]] = []
    if when is not None:
        recent = [one.where(when(one.selected_columns.xid)) for one in recent]
        new = [when(tran.c.xid)]
    counted = by_transaction(recent)
    return (
        select(
            literal(name).label("destination"),
            tran.c.xid,
            func.greatest(tran.c.order_no, counted.c.last, type_=sa.BigInteger).label(
                "order_no"
            ),
            counted.c.calls,
        )
        .select_from(
            tran.join(counted, counted.c.xid == tran.c.xid, isouter=all_of_them)
        )
        .where(*new)
    )


def by_transaction(queued: Sequence[sa.Select[Any]]) -> sa.Subquery:
    """For each queued transaction, the last number and the count of its calls.

    Parameters:
        queued: select xid and call_no.
    """
    calls = sa.union_all(*queued).subquery()
    return (
        select(
            calls.c.xid,
            func.max(calls.c.call_no).label("last"),
            func.count().label("calls"),
        )
        .group_by(calls.c.xid)
        .subquery()
    )
