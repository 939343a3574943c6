"""Gives the transactions of a batch without rows a row each, before some are changed.

The row of such a batch says between which positions it lies, and the view `delivery`
shows its transactions from that (`deferred.batches.whole_window`).
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
    """Give each transaction of batches without rows a row, to be changed or looked up.

    Writes delivery_row and batch. What `delivery` shows stays the same.

    Parameters:
        name: only batches to this destination.
        number: only its batch of this number.
    """
    its, row = batch.c, delivery_row.c
    wanted: list[sa.ColumnElement[bool]] = [its.first_xid.is_not(None)]
    if name is not None:
        wanted.append(its.destination == name)
    if number is not None:
        wanted.append(its.number == number)
    # The same statement reads `delivery`, and still sees the batches without rows.
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
    # Those that were open at the position before have a row already, which the key
    # tells. NOT EXISTS would read the whole table once for each row: the planner takes
    # it for as small as it was before this statement.
    new = insert(delivery_row).from_select(list(delivery.c.keys()), rows)
    connection.execute(
        new.on_conflict_do_nothing(index_elements=[row.destination, row.xid])
    )
