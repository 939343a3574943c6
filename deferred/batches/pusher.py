"""At most one pusher for each site and destination."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Function, func, select
from tenacity import Retrying, stop_after_delay, wait_random

from deferred.errors import PushRunning
from sites import retry
from sites.site import autocommit

#: How long a caller that has to be the pusher waits for another one to end.
PATIENCE_SECONDS = 60


@contextmanager
def only_pusher(connection: Connection, name: str) -> Iterator[bool]:
    """Try to take the pusher's lock of a destination, in the origin's own database.

    Yields whether the lock was free. Commits the connection's open transaction first.
    """
    key = _key(name)
    connection.commit()
    with autocommit(connection):
        held = bool(connection.scalar(select(func.pg_try_advisory_lock(*key))))
    try:
        yield held
    finally:
        if held and not connection.invalidated:
            connection.rollback()
            with autocommit(connection):
                connection.execute(select(func.pg_advisory_unlock(*key)))


def keep_out(connection: Connection, name: str) -> bool:
    """Keep pushers of a destination out until this transaction ends.

    Returns False if one is at work.
    """
    lock = func.pg_try_advisory_xact_lock(*_key(name))
    return bool(connection.scalar(select(lock)))


def _key(name: str) -> tuple[Function[int], Function[int]]:
    return func.hashtext("snaptide.push"), func.hashtext(name)


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
