"""Connections that a task, or the driver for a task, opens by a URI."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, NullPool, create_engine, make_url

from sites.sessions import full


@contextmanager
def begin(uri: str) -> Iterator[Connection]:
    """A connection of its own, in a transaction that commits at the end.

    Parameters:
        uri: as `Site.libpq_uri()` gives it; tasks have no `Site`.
    """
    url = make_url(uri).set(drivername="postgresql+psycopg")
    engine = create_engine(
        url, poolclass=NullPool, connect_args={"prepare_threshold": None}
    )
    with full.wait_for(engine.connect) as connection, connection.begin():
        yield connection
