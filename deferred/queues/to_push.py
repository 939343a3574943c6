"""Whether a push has anything to do, so that a refresh may go without one."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import ColumnElement

from deferred.catalog import batch, deferred_transaction, delivery_row, destination
from deferred.queues import destination_state, unqueued
from sites.capture import position


def may_wait(name: ColumnElement[str]) -> ColumnElement[bool]:
    """Whether a push to a destination may bring something, or be refused.

    If not, all that is queued for it was answered, the last push ended well, and the
    next one may run: it would only find that out once more.

    Parameters:
        name: of the destination; nothing waits for one that there are no queues for.
    """
    at, mine = destination.c, delivery_row.c.destination == destination.c.name
    return sa.exists().where(
        at.name == name,
        sa.or_(
            at.last_error.is_not(None),
            destination_state.has_any(),
            sa.exists().where(mine, delivery_row.c.batch.is_(None)),
            sa.exists().where(
                batch.c.destination == at.name,
                batch.c.number == at.batch_no,
                batch.c.answered < at.batch_end,
            ),
            position.any_since(deferred_transaction.c.xid, at.window_end),
            unqueued.snapshots_of(at.name).is_not(None),
        ),
    )
