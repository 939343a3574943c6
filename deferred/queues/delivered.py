"""Whether a transaction is delivered, as far as its site knows: by its batch."""

from __future__ import annotations

from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy import ColumnElement, cast, func, select

from deferred.catalog import batch, delivery


def is_delivered() -> ColumnElement[bool]:
    """Whether the destination of a delivery has answered it, as far as known.

    False without a delivery, as where none is joined: then it is in no window yet.
    """
    return _answered().correlate_except(batch).exists()


def delivered_before(age: timedelta) -> ColumnElement[bool]:
    """Whether that is so, and the last answer to its batch is older than an age."""
    cutoff = func.clock_timestamp() - cast(age, sa.Interval)
    old = _answered().where(batch.c.answered_at < cutoff)
    return old.correlate_except(batch).exists()


def delivered_at() -> ColumnElement[datetime | None]:
    """When the last answer to the batch of a delivered transaction was noted."""
    found = _answered().with_only_columns(batch.c.answered_at)
    return found.correlate_except(batch).scalar_subquery()


def _answered() -> sa.Select[tuple[int]]:
    """The batch of a delivery, if it was answered up to there."""
    its = batch.c
    return select(its.number).where(
        its.destination == delivery.c.destination,
        its.number == delivery.c.batch,
        its.answered >= delivery.c.order_no,
    )
