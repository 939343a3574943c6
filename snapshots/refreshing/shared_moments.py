"""Lets refreshes that run at the same time read one moment of their master.

A refresh that begins its own moment offers it to the others of one call
(`refresh_many`) that want the same tables. They import it into sessions of their own,
which go from one refresh to the next, and ask only once what is the same for all of
them. So a master describes its tables for a moment, not for each of its sites.

A moment is offered for a second, and ends with the last refresh that reads in it: its
locks keep DDL waiting no longer than that refresh alone would.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import Connection, func, select
from sqlalchemy.exc import SQLAlchemyError

from masters.log import registration
from masters.log.registration import Advance
from sites.catalog import SCHEMA
from sites.errors import SnaptideError
from sites.names import QualifiedName
from sites.sessions.exchange import raw
from sites.sessions.site import Site
from sites.tables import locks
from snapshots.differences.moment import Facts

log = logging.getLogger(__name__)

#: Seconds for which a moment is offered.
SPAN = 1.0

#: A master is told the new positions of so many snapshots at once, at most.
MOST_TOLD = 100


class SharedMoment:
    """A moment of a master, and the sessions that read in it.

    Parameters:
        master: the database.
        tables, logs: what is locked in each of the sessions.
        name: by which other sessions import it; None if it is not offered.
    """

    def __init__(
        self,
        master: Site,
        tables: Sequence[QualifiedName],
        logs: Sequence[str],
        name: str | None,
    ) -> None:
        self.facts = Facts()
        self.logs = tuple(sorted(logs))
        self._master, self._tables, self._name = master, tables, name
        self._began = time.monotonic()
        self._lock = Lock()
        self._readers = 0
        self._free: list[Connection] = []
        self._over = name is None

    @contextmanager
    def read_by(self, connection: Connection) -> Iterator[Connection]:
        """Read by a session that is in the moment; ends the moment if it is the last.

        Parameters:
            connection: is kept for the next reader, or closed. If the block fails, the
                moment is offered no more.
        """
        with self._lock:
            self._readers += 1
        try:
            yield connection
        except BaseException:
            self._over = True
            connection.close()
            self._end(self._leave(None))
            raise
        self._end(self._leave(connection))

    def session(self) -> Connection | None:
        """A session in the moment, for `read_by`; None if it is offered no more.

        Raises:
            NoConnectionFree: there is none.
        """
        with self._lock:
            if self.is_over:
                return None
            if self._free:
                return self._free.pop()
        return self._import()

    @property
    def is_over(self) -> bool:
        """Whether it is too old to be offered, or its first session has failed."""
        return self._over or time.monotonic() - self._began > SPAN

    def _import(self) -> Connection | None:
        connection = self._master.open(self._master.engine, waits=False)
        connection.execution_options(isolation_level="REPEATABLE READ")
        try:
            at = sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(self._name))
            raw(connection).execute(at)
            names = [QualifiedName(SCHEMA, one) for one in self.logs]
            locks.against_ddl(connection, *sorted(self._tables), *names)
        except (psycopg.Error, SQLAlchemyError):
            # The session that has exported it is gone.
            self._over = True
            connection.close()
            return None
        return connection

    def _leave(self, connection: Connection | None) -> list[Connection]:
        """One reader less; returns the sessions that nobody needs any more."""
        with self._lock:
            self._readers -= 1
            if connection is not None:
                self._free.append(connection)
            if self._readers and not self.is_over:
                return []
            self._over = True
            ended, self._free = self._free, []
            return ended

    def _end(self, connections: Sequence[Connection]) -> None:
        for one in connections:
            with suppress(SQLAlchemyError, psycopg.Error):
                # Not rolled back: a rollback would make the server forget its plans.
                one.commit()
            one.close()


class Moments:
    """The moments that refreshes of one call share, and what their masters are told.

    Parameters:
        shared: whether there are several refreshes.
    """

    def __init__(self, *, shared: bool = False) -> None:
        self.shared = shared
        #: by the monotonic clock
        self.began = time.monotonic()
        self._lock = Lock()
        self._latest: dict[tuple[object, ...], SharedMoment] = {}
        self._told: dict[str, tuple[Site, list[Advance]]] = {}

    def offer(
        self,
        connection: Connection,
        master: Site,
        tables: Sequence[QualifiedName],
        logs: Sequence[str],
        *,
        plain: bool,
    ) -> SharedMoment:
        """The moment that a refresh has begun; offered to others from now on.

        Parameters:
            connection: is in the moment.
            plain: whether other refreshes may read in it.
        """
        name = None
        if plain:
            name = str(connection.scalar(select(func.pg_export_snapshot())))
        made = SharedMoment(master, tables, logs, name)
        if name is not None:
            with self._lock:
                self._latest[_of(master, tables)] = made
        return made

    def find(
        self, master: Site, tables: Sequence[QualifiedName], since: float
    ) -> SharedMoment | None:
        """A moment of some tables that is offered.

        Parameters:
            since: it must not have begun before, by the monotonic clock.
        """
        with self._lock:
            found = self._latest.get(_of(master, tables))
        if found is None or found.is_over or found._began < since:
            return None
        return found

    def tell(
        self, master: Site, site_id: uuid.UUID, snapshots: Sequence[str], position: str
    ) -> None:
        """Have a master told the new position of snapshots, with those of others.

        It is told soon, and of the rest by `tell_rest`. It keeps its logs from the
        position before until then; the site's own is the truth.
        """
        new = [Advance(site_id, name, position) for name in snapshots]
        with self._lock:
            _, waiting = self._told.setdefault(master.name, (master, []))
            waiting += new
            if len(waiting) < MOST_TOLD:
                return
            del self._told[master.name]
        _tell(master, waiting)

    def tell_rest(self) -> None:
        """Tell masters all that they have not been told yet."""
        with self._lock:
            rest, self._told = self._told, {}
        for master, waiting in rest.values():
            _tell(master, waiting)


def _tell(master: Site, waiting: Sequence[Advance]) -> None:
    """Tell a master new positions; if it cannot be told, the next refreshes do it."""
    try:
        with master.transaction() as connection:
            registration.advance_many(connection, waiting)
    except (SnaptideError, SQLAlchemyError) as error:
        log.warning(
            "%s was not told that %d snapshots were refreshed, and keeps its logs for "
            "them until their next refresh: %s",
            master.name,
            len(waiting),
            " ".join(str(error).split()),
        )


def _of(master: Site, tables: Sequence[QualifiedName]) -> tuple[Any, ...]:
    return master.name, *sorted(tables)
