"""The budget of a queue: how old and how large it may become before pushes stop.

A destination that cannot be reached costs rows of the queue and nothing else: users go
on writing. If the waiting calls are older or larger than its budget, the next push
makes the destination invalid. Nothing more is pushed to it, because changes that old
may no longer be wanted, until an operator has looked and makes it valid again
(Virtuoso: REPL_MAX_DELTA, RS_VALID). No call is dropped.
"""

from __future__ import annotations

import logging
from datetime import timedelta

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, func, select

from deferred.catalog import destination
from deferred.queues import destination_state
from deferred.queues.backlog import LONGEST_PAUSE, Backlog, backlog_of
from sites import Site
from sites.sessions import identity

log = logging.getLogger(__name__)


def set_budget(
    site: Site, name: str, *, age: timedelta | None = None, size: int | None = None
) -> Backlog:
    """Set how far a destination may fall behind before it becomes invalid.

    Writes the table `destination`.

    Parameters:
        name: the destination.
        age: of the oldest waiting transaction; None is no limit.
        size: of the waiting calls, in bytes; None is no limit.

    Raises:
        NoSuchDestination: nothing here is queued for it.
        ValueError: a limit is negative.
    """
    if (age is not None and age < timedelta(0)) or (size is not None and size < 0):
        raise ValueError("a budget must not be negative")
    with identity.initialised(site) as connection:
        connection.execute(
            sa.update(destination)
            .where(destination.c.name == name)
            .values(max_lag_age=age, max_lag_bytes=size)
        )
        return backlog_of(connection, name)


def validate_destination(site: Site, name: str) -> Backlog:
    """Let pushes to an invalid destination go on, with all waiting calls.

    Its budget does not count until the queue is within it again.

    Raises:
        NoSuchDestination: nothing here is queued for it.
    """
    with identity.initialised(site) as connection:
        destination_state.validate(connection, name)
        return backlog_of(connection, name)


def is_limited() -> ColumnElement[bool]:
    """Whether a row of the table `destination` has a budget."""
    limits = destination.c.max_lag_age, destination.c.max_lag_bytes
    return sa.or_(*(limit.is_not(None) for limit in limits))


def judge(connection: Connection, name: str, *, excused: bool) -> None:
    """Make a destination invalid that is over its budget; commits that.

    Parameters:
        name: of a destination with a budget.
        excused: its budget does not count until the queue is within it again.

    Raises:
        DestinationInvalid.
    """
    reason = _over(connection, backlog_of(connection, name))
    if reason is None and excused:
        destination_state.end_excuse(connection, name)
        connection.commit()
    if reason is not None and not excused:
        destination_state.invalidate(connection, name, reason)
        connection.commit()
        log.warning("Destination %s is now invalid: %s", name, reason)
        destination_state.refuse_closed(connection, name)


def pause() -> dict[str, object]:
    """The values to write after a failure: try again in up to 1, 2, 4, ... seconds."""
    seconds = func.least(func.power(2, destination.c.failures), LONGEST_PAUSE)
    spread = 0.5 + func.random() / 2
    return {
        "failures": func.least(destination.c.failures + 1, 30),
        "retry_at": func.clock_timestamp()
        + func.make_interval(0, 0, 0, 0, 0, 0, seconds * spread),
    }


#: The values to write after a success: the pause is over.
GOES_ON: dict[str, object] = {"failures": 0, "retry_at": None}


def _over(connection: Connection, waiting: Backlog) -> str | None:
    """The limit that a queue exceeds, in words; None if it exceeds none."""
    now = connection.execute(select(func.now())).scalar_one()
    age = now - waiting.oldest if waiting.oldest else timedelta(0)
    if waiting.max_lag_age is not None and age > waiting.max_lag_age:
        return (
            f"its oldest transaction has waited for {age}; the limit is "
            f"{waiting.max_lag_age}."
        )
    if waiting.max_lag_bytes is not None and waiting.bytes > waiting.max_lag_bytes:
        return (
            f"{waiting.bytes:,} bytes of calls are waiting; the limit is "
            f"{waiting.max_lag_bytes:,}."
        )
    return None
