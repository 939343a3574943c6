"""The connections to masters that belong to one connection to the site.

They stay open as long as it does: taking each from a pool costs a transaction of one
row a twentieth of its time.
"""

from __future__ import annotations

import time
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import Connection, Engine, event

from sites import Site
from sites.sessions import connections
from synchronous import master_connection

_KEY = "snaptide.master_connections"


class KeptConnections:
    """The connections that are not in use, and since when."""

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
            driver = master_connection.driver(connection)
            driver.answer_timeout = timeout
            if connections.is_alive(driver, since):
                return connection
            drop(connection)
        return master_connection.connect(master, timeout)

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


def of(at_site: Connection) -> KeptConnections:
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
    driver = master_connection.driver(connection)
    try:
        if driver.pgconn.transaction_status != TransactionStatus.IDLE:
            driver.rollback()
        connection.rollback()
    except psycopg.Error:
        return False
    return not driver.closed
