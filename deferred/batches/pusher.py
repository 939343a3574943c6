"""One pusher for each site and destination, whoever starts another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, func, select


@contextmanager
def only_pusher(connection: Connection, name: str) -> Iterator[bool]:
    """Hold the pusher's lock of a destination, in the origin's own database."""
    key = (func.hashtext("snaptide.push"), func.hashtext(name))
    held = bool(connection.scalar(select(func.pg_try_advisory_lock(*key))))
    connection.commit()
    try:
        yield held
    finally:
        if held and not connection.invalidated:
            connection.rollback()
            connection.execute(select(func.pg_advisory_unlock(*key)))
            connection.commit()
