"""One pusher for each site and destination, whoever starts another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, func, select
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random

from deferred.errors import PushRunning
from sites.site import each_by_itself

#: How long somebody waits who needs to be the pusher, while another one is.
PATIENCE_SECONDS = 60


@contextmanager
def only_pusher(connection: Connection, name: str) -> Iterator[bool]:
    """Hold the pusher's lock of a destination, in the origin's own database.

    Commits what the connection has begun.
    """
    key = (func.hashtext("snaptide.push"), func.hashtext(name))
    connection.commit()
    with each_by_itself(connection):
        held = bool(connection.scalar(select(func.pg_try_advisory_lock(*key))))
    try:
        yield held
    finally:
        if held and not connection.invalidated:
            connection.rollback()
            with each_by_itself(connection):
                connection.execute(select(func.pg_advisory_unlock(*key)))


def waiting_for_pushes() -> Retrying:
    """Try again while somebody else pushes, for a while.

    Raises:
        PushRunning: he still does.
    """
    return Retrying(
        retry=retry_if_exception_type(PushRunning),
        stop=stop_after_delay(PATIENCE_SECONDS),
        wait=wait_random(0.05, 0.2),
        reraise=True,
    )
