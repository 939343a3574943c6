"""At most one pusher for each site and destination."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Function, Text, func, select
from tenacity import Retrying, stop_after_delay, wait_random

from deferred.catalog import destination
from deferred.errors import PushRunning
from sites import retry
from sites.sessions.prepared import Prepared

#: How long a caller that has to be the pusher waits for another one to end.
PATIENCE_SECONDS = 60


@dataclass(slots=True, kw_only=True)
class Turn:
    """The lock of the pusher to a destination, in the origin's own database."""

    name: str
    held: bool

    def __bool__(self) -> bool:
        return self.held


@contextmanager
def only_pusher(connection: Connection, name: str) -> Iterator[Turn]:
    """Try to take the pusher's lock of a destination, and release it after the block.

    Yields the turn, which is false if another session holds the lock. Commits the
    connection's open transaction first.
    """
    connection.commit()
    with turns(connection) as turn:
        turn.name = name
        turn.held = bool(_TRY.run_apart(connection, pushed_to=name).scalar())
        yield turn


@contextmanager
def turns(connection: Connection) -> Iterator[Turn]:
    """Release the lock of a pusher after the block, which takes it by `TRIED`.

    The turn is held from the beginning, as the block may fail before it knows whether
    it has got the lock.
    """
    turn = Turn(name="", held=True)
    try:
        yield turn
    finally:
        if turn.held:
            _END.give_back(connection)


def keep_out(connection: Connection, name: str) -> bool:
    """Keep pushers of a destination out until this transaction ends.

    Returns False if one is at work.
    """
    lock = func.pg_try_advisory_xact_lock(*_key(name))
    return bool(connection.scalar(select(lock)))


def _key(name: str | ColumnElement[str]) -> tuple[Function[int], Function[int]]:
    return func.hashtext("snaptide.push"), func.hashtext(name)


_GIVEN = sa.bindparam("pushed_to", type_=Text)
_PUSHED_TO = _key(_GIVEN)
_TRY = Prepared(select(func.pg_try_advisory_lock(*_PUSHED_TO)))

_ONLY_ONE = select(func.min(destination.c.name)).having(func.count() == 1)

#: Takes the lock of the destination `pushed_to`, or of the only one if that is NULL, in
#: a statement that reads more: whether it was free.
TRIED = func.pg_try_advisory_lock(
    *_key(func.coalesce(_GIVEN, _ONLY_ONE.scalar_subquery()))
).label("turn")

#: Releases the lock of the destination `pushed_to`, in a statement that returns this.
RELEASED = func.pg_advisory_unlock(*_PUSHED_TO)
#: A session that pushes has no other locks of its own.
_END = Prepared(select(func.pg_advisory_unlock_all()))


def waiting_for_pushes() -> Retrying:
    """Retry while another session pushes, for up to `PATIENCE_SECONDS`.

    Raises:
        PushRunning: the other session still pushes.
    """
    return retry.on(
        PushRunning,
        stop=stop_after_delay(PATIENCE_SECONDS),
        wait=wait_random(0.05, 0.2),
    )
