"""The budget of a queue: how old and how large it may become before pushes stop.

A destination that cannot be reached costs rows of the queue and nothing else: users go
on writing. If the waiting calls are older or larger than its budget, the next push
marks the destination invalid. Nothing more is pushed to it, because changes that old
may no longer be wanted, until an operator has looked and makes it valid again
(Virtuoso: REPL_MAX_DELTA, RS_VALID). No call is dropped.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row, func, select

from deferred.catalog import destination
from deferred.errors import DestinationInvalid
from deferred.queues.backlog import LONGEST_PAUSE, Backlog, backlog_of
from sites import Site, identity

log = logging.getLogger(__name__)


def set_budget(
    site: Site, name: str, *, age: timedelta | None = None, size: int | None = None
) -> Backlog:
    """Set how far a destination may fall behind before it is marked invalid.

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
    return _change(site, name, max_lag_age=age, max_lag_bytes=size)


def validate_destination(site: Site, name: str) -> Backlog:
    """Let pushes to an invalid destination go on, with all waiting calls.

    Its budget does not count until the queue is within it again.

    Raises:
        NoSuchDestination: nothing here is queued for it.
    """
    return _change(site, name, invalid_since=None, invalid_reason=None, excused=True)


def judge(connection: Connection, row: Row[Any]) -> None:
    """Refuse a destination that is invalid, and mark one that is over its budget.

    Writes the table `destination`, and commits what it writes.

    Parameters:
        row: of the table `destination`.

    Raises:
        DestinationInvalid.
    """
    name = row.name
    limited = row.max_lag_age is not None or row.max_lag_bytes is not None
    if row.invalid_since is None and limited:
        reason = _over(connection, backlog_of(connection, name))
        if reason is None and row.excused:
            _note(connection, name, excused=False)
        if reason is not None and not row.excused:
            _note(connection, name, invalid_since=func.now(), invalid_reason=reason)
            log.warning("Destination %s is now invalid: %s", name, reason)
            raise DestinationInvalid(f"{name} is invalid: {reason}", destination=name)
    if row.invalid_since is not None:
        raise DestinationInvalid(
            f"{name} has been invalid since {row.invalid_since:%Y-%m-%d %H:%M:%S}: "
            f"{row.invalid_reason}",
            destination=name,
        )


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


def _note(connection: Connection, name: str, **values: object) -> None:
    connection.execute(
        sa.update(destination).where(destination.c.name == name).values(values)
    )
    connection.commit()


def _change(site: Site, name: str, **values: object) -> Backlog:
    with site.transaction() as connection:
        identity.read(connection)
        connection.execute(
            sa.update(destination).where(destination.c.name == name).values(values)
        )
        return backlog_of(connection, name)
