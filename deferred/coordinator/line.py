"""Lines to masters: connections that do not wait for ever."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, cast

import psycopg
from psycopg import errors
from psycopg.abc import RV, PQGen
from sqlalchemy import Connection, Engine, event

from deferred.coordinator import idle
from sites import Site

#: Statements are prepared when they ask for it, and never by being counted:
#: others may be about tables that change.
_ONLY_WHEN_ASKED = 1_000_000_000


class NoAnswer(psycopg.OperationalError):
    """The server did not answer in time."""


class Line(psycopg.Connection[Any]):
    """A connection that is given up when the server does not answer in time."""

    #: seconds; None waits for ever
    patience: float | None = None

    def wait(
        self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None
    ) -> RV:
        """Wait for an answer, at most as long as `patience`.

        Raises:
            NoAnswer: none came; the connection is closed.
        """
        try:
            return super().wait(gen, interval, timeout or self.patience)
        except errors._WaitTimeout:
            self.pgconn.finish()
            seconds = f"{timeout or self.patience:g}"
            raise NoAnswer(f"no answer within {seconds} seconds") from None


#: of the line that is being opened, in seconds
_timeout: ContextVar[float] = ContextVar("timeout", default=10.0)


def engine(master: Site) -> Engine:
    """The pool of lines to a master; transactions on them are begun by hand.

    PREPARE TRANSACTION ends a transaction in a way that no driver knows of.
    """
    found = master.pools.get("lines")
    if found is None:
        found = master.new_engine(
            isolation_level="AUTOCOMMIT",
            prepare_threshold=_ONLY_WHEN_ASKED,
            pool_size=8,
            max_overflow=56,
        )
        event.listen(found, "do_connect", _connect)
        idle.try_after_idling(found)
        master.pools["lines"] = found
    return found


def connect(master: Site, timeout: float) -> Connection:
    """Take a line to a master; neither this nor an answer takes longer than `timeout`.

    Raises:
        sqlalchemy.exc.OperationalError: the master cannot be reached.
    """
    token = _timeout.set(timeout)
    try:
        connection = engine(master).connect()
    finally:
        _timeout.reset(token)
    driver(connection).patience = timeout
    return connection


def driver(connection: Connection) -> Line:
    """The line below a connection."""
    return cast("Line", connection.connection.driver_connection)


def _connect(
    _dialect: object, _record: object, arguments: list[Any], named: dict[str, Any]
) -> Line:
    # The driver counts whole seconds, and two at least.
    named["connect_timeout"] = math.ceil(_timeout.get())
    connect = cast("Callable[..., Line]", Line.connect)
    return connect(*arguments, **named)
