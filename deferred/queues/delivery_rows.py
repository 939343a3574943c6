"""Rows for transactions of which their batch says all that there is to say.

A batch of many transactions that are alike says between which positions it lies, and
the view `delivery` shows them from that. What changes some of them writes rows first.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Connection, select
from sqlalchemy.dialects.postgresql import insert

from deferred.catalog import batch, delivery, delivery_row

#: The columns of `batch` that say which transactions it has.
SAID = ("first_xid", "shown", "first_order", "last_order", "calls_each")


def write_rows(
    connection: Connection, name: str | None = None, number: int | None = None
) -> None:
    """Give all deliveries rows of their own, which can be changed and looked up.

    Writes delivery_row and batch. What `delivery` shows stays the same.

    Parameters:
        name: only those to this destination.
        number: only those of its batch of this number.
    """
    its, row = batch.c, delivery_row.c
    wanted: list[sa.ColumnElement[bool]] = [its.first_xid.is_not(None)]
    if name is not None:
        wanted.append(its.destination == name)
    if number is not None:
        wanted.append(its.number == number)
    # What it sees of `delivery` are the batches as they were before.
    left = (
        sa.update(batch)
        .where(*wanted)
        .values(dict.fromkeys(SAID))
        .returning(its.destination, its.number)
        .cte("left")
    )
    of = sa.and_(
        left.c.destination == delivery.c.destination,
        left.c.number == delivery.c.batch,
    )
    rows = select(delivery).join(left, of)
    # Some have a row already. A look for each would read the whole table every time:
    # the planner takes it for as small as it was before this statement.
    new = insert(delivery_row).from_select(list(delivery.c.keys()), rows)
    connection.execute(
        new.on_conflict_do_nothing(index_elements=[row.destination, row.xid])
    )
