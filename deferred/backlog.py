"""What a site still has to push: for those who ask for pushes, and for people.

A hint. The truth about a transaction is the destination's marker.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Row, func, select

from deferred.catalog import deferred_transaction, delivery, destination
from deferred.errors import NoSuchDestination
from sites import Site, identity, position


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What waits at a site for one destination."""

    destination: str
    disabled: bool
    #: transactions that the destination has not answered, as far as known
    transactions: int
    #: calls of those that a window holds already
    calls: int
    #: when the oldest of them was begun
    oldest: datetime | None
    last_push_at: datetime | None
    last_txn_count: int | None
    last_error: str | None
    last_error_at: datetime | None


def waiting_destinations(connection: Connection) -> list[str]:
    """Destinations that something waits for, those that are disabled left out."""
    rows = _destinations(connection)
    return [
        row.name
        for row in rows
        if not row.disabled and connection.scalar(_anything_for(row))
    ]


def backlogs(connection: Connection) -> list[Backlog]:
    """What waits for each destination, by name."""
    return [_backlog(connection, row) for row in _destinations(connection)]


def set_disabled(site: Site, name: str, *, disabled: bool) -> Backlog:
    """Pause the pushes to a destination, or let them go on (Oracle: SET_DISABLED).

    Raises:
        NoSuchDestination: nothing here is queued for it.
    """
    with site.begin() as connection:
        identity.read(connection)
        changed = connection.execute(
            sa.update(destination)
            .where(destination.c.name == name)
            .values(disabled=disabled)
        )
        if not changed.rowcount:
            raise NoSuchDestination(f"Nothing is queued here for {name!r}.")
        return next(b for b in backlogs(connection) if b.destination == name)


def _destinations(connection: Connection) -> list[Row[Any]]:
    end = sa.cast(destination.c.window_end, sa.Text).label("seen")
    columns = [column for column in destination.c if column.name != "window_end"]
    return list(connection.execute(select(*columns, end).order_by("name")))


def _anything_for(row: Row[Any]) -> sa.Select[tuple[bool]]:
    return select(
        sa.or_(
            sa.exists().where(_cut(row)),
            sa.exists().where(_not_in_a_window(row)),
        )
    )


def _backlog(connection: Connection, row: Row[Any]) -> Backlog:
    started = deferred_transaction.c.start_time
    cut = connection.execute(
        select(func.count(), func.sum(delivery.c.calls), func.min(started))
        .join(deferred_transaction, deferred_transaction.c.xid == delivery.c.xid)
        .where(_cut(row))
    ).one()
    new = connection.execute(
        select(func.count(), func.min(started)).where(_not_in_a_window(row))
    ).one()
    return Backlog(
        destination=row.name,
        disabled=row.disabled,
        transactions=cut[0] + new[0],
        calls=int(cut[1] or 0),
        oldest=min(filter(None, (cut[2], new[1])), default=None),
        last_push_at=row.last_push_at,
        last_txn_count=row.last_txn_count,
        last_error=row.last_error,
        last_error_at=row.last_error_at,
    )


def _cut(row: Row[Any]) -> ColumnElement[bool]:
    """Transactions of the window that are not delivered; the newest batch or none."""
    return sa.and_(
        delivery.c.destination == row.name,
        delivery.c.delivered_at.is_(None),
        sa.or_(delivery.c.batch.is_(None), delivery.c.batch >= row.batch_no),
    )


def _not_in_a_window(row: Row[Any]) -> ColumnElement[bool]:
    """Transactions that the next window will hold, if they concern the destination."""
    return position.since(deferred_transaction.c.xid, row.seen)
