"""Notes at the origin of how a push to a destination ended."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, func
from sqlalchemy.exc import DBAPIError

from deferred import sqlstate
from deferred.batches.pusher import RELEASED, Turn
from deferred.catalog import destination
from deferred.errors import DestinationQuiet, PushInterrupted, TooManyErrors
from deferred.options import ErrorAction
from deferred.queues import budget, destination_state
from sites.sessions.prepared import planned_once


def interrupted(
    origin: Connection, name: str, error: DBAPIError, transactions: int
) -> PushInterrupted:
    """Note the system's error that stopped a push; returns ours, to raise.

    Parameters:
        transactions: how many it had brought.
    """
    reason = sqlstate.message(error)
    note_failure(origin, name, reason, transactions)
    return PushInterrupted(
        f"The push to {name} stopped: {reason}",
        destination=name,
        sqlstate=sqlstate.of(error),
    )


def note_success(origin: Connection, turn: Turn, transactions: int) -> None:
    """Note that a push ended well, and how many transactions it brought; end its turn.

    The next push may begin a moment before the commit. If it comes to the destination's
    row before, PostgreSQL has it begin that step again (40001).
    """
    values = {"pushed_to": turn.name, "brought": transactions}
    with origin.begin():
        if origin.scalar(_ENDED_WELL, values):
            turn.held = False


def note_failure(origin: Connection, name: str, reason: str, transactions: int) -> None:
    """Note why a push failed, and pause the next ones as the budget has it.

    Parameters:
        transactions: how many it had brought.
    """
    if not origin.invalidated:
        origin.rollback()
        noted = _noting(
            name,
            last_error=reason,
            last_error_at=func.now(),
            delivered=destination.c.delivered + transactions,
            **budget.pause(),
        )
        with origin.begin():
            origin.execute(noted)


def keep_quiet(
    origin: Connection, name: str, error: DestinationQuiet | TooManyErrors
) -> None:
    """Disable pushes to this destination, or to all, until an operator enables them."""
    all_of_them = error.facts["action"] == ErrorAction.QUIET_SERVER
    with origin.begin():
        destination_state.disable(origin, error.message, None if all_of_them else name)


def _noting(name: str | ColumnElement[str], **values: object) -> sa.Update:
    return sa.update(destination).where(destination.c.name == name).values(values)


_BROUGHT = sa.bindparam("brought", type_=sa.BigInteger)
_ENDED_WELL = planned_once(
    _noting(
        sa.bindparam("pushed_to", type_=sa.Text),
        last_push_at=func.now(),
        last_txn_count=_BROUGHT,
        delivered=destination.c.delivered + _BROUGHT,
        last_error=None,
        **budget.GOES_ON,
    ).returning(RELEASED)
)
