"""Connections to masters that do not wait forever, and are kept for the next time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

import psycopg
from psycopg import errors
from psycopg.abc import RV, PQGen
from psycopg.pq import TransactionStatus
from sqlalchemy import Connection, Engine, NullPool, event, func, select

from sites import Site
from sites.sessions import connections
from sites.sessions.settings import SETTINGS
from sites.writing.triggered import USERS_SEARCH_PATH

#: Where a connection remembers its settings.
_SETTINGS = "snaptide.settings"

#: Where a connection to the site has those to its masters.
_KEY = "snaptide.master_connections"


class NoAnswer(psycopg.OperationalError):
    """The server did not answer in time."""


class MasterConnection(psycopg.Connection[Any]):
    """A connection that is given up when the server does not answer in time."""

    #: seconds; None waits forever
    answer_timeout: float | None = None

    def wait(
        self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None
    ) -> RV:
        """Wait for an answer, at most as long as `answer_timeout`.

        Raises:
            NoAnswer: none came; the connection is closed.
        """
        try:
            return super().wait(gen, interval, timeout or self.answer_timeout)
        except errors._WaitTimeout:
            self.pgconn.finish()
            seconds = f"{timeout or self.answer_timeout:g}"
            raise NoAnswer(f"no answer within {seconds} seconds") from None


#: timeout of the connection that is being opened, in seconds
_timeout: ContextVar[float] = ContextVar("timeout", default=10.0)


def engine(master: Site) -> Engine:
    """The engine that opens connections to a master; callers begin transactions.

    PREPARE TRANSACTION ends a transaction in a way that no driver knows of.
    """

    def make() -> Engine:
        made = master.new_engine(
            isolation_level="AUTOCOMMIT",
            # They have a class of connections of their own.
            resets=False,
            # Lines that are used again belong to a connection to a site; before one is
            # given up, its transaction is rolled back if possible.
            poolclass=NullPool,
            pool_reset_on_return=None,
        )
        event.listen(made, "do_connect", _connect)
        return made

    return master.pool("master_connections", make)


def connect(master: Site, timeout: float) -> Connection:
    """Open a connection to a master; this, and each answer, takes `timeout` at most.

    Raises:
        sqlalchemy.exc.OperationalError: the master cannot be reached.
    """
    token = _timeout.set(timeout)
    try:
        connection = engine(master).connect()
    finally:
        _timeout.reset(token)
    driver(connection).answer_timeout = timeout
    return connection


def driver(connection: Connection) -> MasterConnection:
    """The psycopg connection below one of SQLAlchemy."""
    return cast("MasterConnection", connection.connection.driver_connection)


def configure(connection: Connection, settings: Mapping[str, str]) -> None:
    """Apply settings to all transactions of a connection, which is in none, if needed.

    To apply them in each transaction would cost one more statement in each.
    """
    if connection.info.get(_SETTINGS) != settings:
        values = (func.set_config(*one, False) for one in settings.items())
        connection.execute(select(*values))
        connection.info[_SETTINGS] = settings


@contextmanager
def in_transactions(connection: Connection) -> Iterator[Connection]:
    """Let a connection that is in no transaction be used like an ordinary one."""
    connection.rollback()
    connection.execution_options(isolation_level="READ COMMITTED")
    yield connection
    connection.rollback()
    connection.execution_options(isolation_level="AUTOCOMMIT")


@contextmanager
def searching_as_ours(connection: Connection) -> Iterator[None]:
    """Use our own search path on a connection while the block runs.

    If the block fails, the connection is configured again before it is used again.
    """
    settings = connection.info.pop(_SETTINGS)
    _search(connection, SETTINGS["search_path"])
    yield
    _search(connection, USERS_SEARCH_PATH)
    connection.info[_SETTINGS] = settings


def _search(connection: Connection, path: str) -> None:
    connection.execute(select(func.set_config("search_path", path, False)))


def _connect(
    _dialect: object, _record: object, arguments: list[Any], named: dict[str, Any]
) -> MasterConnection:
    # The driver counts whole seconds, and two at least.
    named["connect_timeout"] = math.ceil(_timeout.get())
    connect = cast("Callable[..., MasterConnection]", MasterConnection.connect)
    return connect(*arguments, **named)


class KeptConnections:
    """The connections to masters that belong to one connection to the site.

    They stay open as long as it does: taking each from a pool costs a transaction of
    one row a twentieth of its time. Those that are not in use are kept, and since when.
    """

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Connection, float]] = {}
        self._closed = False

    def take(self, master: Site, timeout: float) -> Connection:
        """A connection to a master; to open it, or to answer, takes `timeout` at most.

        Raises:
            sqlalchemy.exc.OperationalError: the master cannot be reached.
        """
        connection, since = self._kept.pop(master.name, (None, 0.0))
        if connection is not None:
            kept = driver(connection)
            kept.answer_timeout = timeout
            if connections.is_alive(kept, since):
                return connection
            drop(connection)
        return connect(master, timeout)

    def give(self, master: Site, connection: Connection) -> None:
        """Take a connection back, and roll back a transaction that is open on it."""
        if self._closed or not _is_reset(connection):
            drop(connection)
        else:
            self._kept[master.name] = (connection, time.monotonic())

    def close(self) -> None:
        """Close the connections, and any that are given back from now on."""
        self._closed = True
        while self._kept:
            drop(self._kept.popitem()[1][0])


def kept_at(at_site: Connection) -> KeptConnections:
    """The connections to masters that belong to one to the site."""
    found: KeptConnections = at_site.info.setdefault(_KEY, KeptConnections())
    return found


def drop(connection: Connection) -> None:
    """Close a connection, whether it works or not."""
    connection.invalidate()
    connection.close()


def close_with(engine: Engine) -> None:
    """Close those that belong to each connection of a pool when that is closed."""

    def close(_driver: object, record: Any) -> None:
        if _KEY in record.info:
            record.info[_KEY].close()

    event.listen(engine, "close", close)


def _is_reset(connection: Connection) -> bool:
    """Roll a connection back; True if nothing is open on it any more."""
    if connection.invalidated:
        return False
    line = driver(connection)
    try:
        if line.pgconn.transaction_status != TransactionStatus.IDLE:
            line.rollback()
        connection.rollback()
    except psycopg.Error:
        return False
    return not line.closed
