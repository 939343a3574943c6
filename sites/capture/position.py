"""Positions in a log: which transactions a reader has already seen.

A sequence number or a time is taken before commit, so a late commit appears
behind a position that was already read. A position is therefore a database
snapshot (docs/explanation/positions.md): transactions that it saw are behind it,
all others ahead.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Text, func, select

from sites.transfer.types import PgSnapshot, Xid8

#: More transaction ids than any cluster assigns. A repair moves the ids of a former
#: cluster beyond them; each cluster has two stretches of this length.
STRETCH = 2**48

#: The position before everything.
START = "1:1:"


#: The position of a statement's transaction, for statements that read more.
CURRENT = sa.cast(func.pg_current_snapshot(), Text).label("position")


def current(connection: Connection) -> str:
    """The position of this transaction's snapshot.

    Read in the same REPEATABLE READ transaction as the log, it says exactly
    which rows that transaction can see.
    """
    return str(connection.scalar(select(CURRENT)))


def end(position: str) -> int:
    """The first transaction id that a position has certainly not seen."""
    return int(position.split(":")[1])


def has_seen(position: str, earlier: str) -> bool:
    """Whether a position has seen all transactions that another one has."""
    last = end(earlier)
    still_open = {one for one in running(position) if one < last}
    return end(position) >= last and still_open <= running(earlier)


def running(position: str) -> set[int]:
    """The transactions that were open at a position."""
    return {int(one) for one in position.split(":")[2].split(",") if one}


def since(
    xid: ColumnElement[Any], position: str | ColumnElement[str]
) -> ColumnElement[bool]:
    """Whether a position has not seen the transaction of a row that the reader sees.

    That is so if the transaction began after the position, or was still open then. A
    scan from the oldest open transaction instead would read the whole log as long as
    one forgotten transaction stays open. Ids of a former cluster lie beyond all ids of
    this one, and are skipped.
    """
    old = value(position)
    return sa.and_(
        sa.or_(xid >= func.pg_snapshot_xmax(old), open_at(xid, old)), _of_now(xid)
    )


def value(position: str | ColumnElement[str]) -> ColumnElement[Any]:
    """A position for use in statements.

    Parameters:
        position: its text, or the place of it.
    """
    given = sa.literal(position) if isinstance(position, str) else position
    return sa.cast(given, PgSnapshot())


def any_since(
    xid: ColumnElement[Any], position: ColumnElement[Any]
) -> ColumnElement[bool]:
    """Whether a table has rows of transactions `since` a position.

    The last one is found at the end of an index of the column, however many there are.

    Parameters:
        xid: the column of the table.
        position: a value of the database.
    """
    last = select(func.max(xid)).where(_of_now(xid)).scalar_subquery()
    ran = select(sa.literal(1)).where(open_at(xid, position)).exists()
    return sa.or_(
        func.coalesce(last >= func.pg_snapshot_xmax(position), sa.false()), ran
    )


def begun_since(
    xid: ColumnElement[Any], position: ColumnElement[Any]
) -> ColumnElement[bool]:
    """Whether a transaction of this cluster had not begun at a position."""
    return sa.and_(xid >= func.pg_snapshot_xmax(position), _of_now(xid))


def open_at(
    xid: ColumnElement[Any], position: ColumnElement[Any]
) -> ColumnElement[bool]:
    """Whether a transaction was open at a position."""
    # A position may be a column of a table that the statement reads anyway.
    each = select(func.pg_snapshot_xip(position)).correlate_except(None)
    running = each.scalar_subquery()
    return xid == sa.any_(func.array(running))


def _of_now(xid: ColumnElement[Any]) -> ColumnElement[bool]:
    """Whether a transaction is one of this cluster: a repair moves those of others."""
    return xid < func.pg_snapshot_xmax(func.pg_current_snapshot())


def after(xid: ColumnElement[Any], position: str) -> ColumnElement[bool]:
    """Whether a transaction came after a position, also if a repair has moved them.

    All ids that this cluster assigns come after those that were moved.
    """
    ours = xid < xid8(STRETCH)
    later = sa.not_(
        func.pg_visible_in_snapshot(xid, sa.cast(sa.literal(position), PgSnapshot()))
    )
    if end(position) >= STRETCH:
        return sa.or_(ours, later)
    return sa.and_(ours, later)


def moved(position: str, by: int) -> str:
    """A position as a repair moves it, together with the ids in it."""
    low, high, _ = position.split(":")
    ids = ",".join(str(one + by) for one in sorted(running(position)))
    return f"{int(low) + by}:{int(high) + by}:{ids}"


def visible(
    xid: ColumnElement[Any], position: ColumnElement[Any]
) -> ColumnElement[bool]:
    """Whether a transaction had ended, by commit or rollback, at a position."""
    return func.pg_visible_in_snapshot(xid, position)


def xid8(value: str | int) -> ColumnElement[Any]:
    """A transaction id as a value of the database."""
    return sa.cast(sa.literal(str(value)), Xid8())
