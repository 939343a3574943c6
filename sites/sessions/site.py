"""A database that takes part, and the directory of all of them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from threading import RLock
from typing import Any, Self

import psycopg
from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as NoneFree

from sites.errors import (
    NoConnectionFree,
    SiteUnreachable,
    UnknownSite,
    UnsupportedDatabase,
)
from sites.sessions import address, connections, exchange, full, prepared
from sites.sessions.connections import Idle
from sites.sessions.settings import FOR_PROGRAMS, SETTINGS, libpq_options

OLDEST_VERSION = 160000

#: How many sessions of each pool a process may have at a site.
MOST = 24

#: Options of both pools: of our sessions, and of programs' connections.
_POOL: dict[str, Any] = {
    # The session used last comes first: it has its plans already.
    "pool_use_lifo": True,
    "pool_size": MOST,
    "max_overflow": 0,
}


class Directory(Mapping[str, "Site"]):
    """All sites by name, as `snaptide.toml` or a program gives them.

    Used in a `with` statement, it closes its idle connections at the end.

    Parameters:
        urls: name -> connection URL (`postgresql://user:password@host/database`).
    """

    def __init__(self, urls: Mapping[str, str | URL]) -> None:
        self._sites = {
            name: Site(name=name, url=address.driver_url(url), directory=self)
            for name, url in urls.items()
        }

    def __getitem__(self, name: str) -> Site:
        try:
            return self._sites[name]
        except KeyError:
            known = ", ".join(sorted(self._sites)) or "none"
            raise UnknownSite(
                f"No site {name!r} is configured (known: {known}).", site=name
            ) from None

    def __contains__(self, name: object) -> bool:
        # That of a Mapping expects a KeyError of the above.
        return name in self._sites

    def __iter__(self) -> Iterator[str]:
        return iter(self._sites)

    def __len__(self) -> int:
        return len(self._sites)

    def __repr__(self) -> str:
        return f"Directory({', '.join(self._sites)})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the idle connections of all sites."""
        for site in self._sites.values():
            site.close()


@dataclass(frozen=True, kw_only=True)
class Site:
    """One database that takes part, as a master, a snapshot site or both.

    Parameters:
        name: its name for users and other sites.
        url: its connection URL; the password never shows in a repr or an error.
        directory: the sites that this one can reach.
    """

    name: str
    url: URL = field(repr=False)
    directory: Directory = field(repr=False, compare=False)
    _idle: Idle = field(default_factory=Idle, init=False, repr=False, compare=False)
    _making: RLock = field(default_factory=RLock, init=False, repr=False, compare=False)

    @cached_property
    def engine(self) -> Engine:
        """The pool of sessions for Snaptide's statements; made at first use."""
        return self.new_engine(**_POOL)

    @cached_property
    def _for_programs(self) -> Engine:
        # A pool apart: what a program sets in a session, or creates in its pg_temp,
        # would change the meaning of our statements.
        return self.new_engine(for_programs=True, **_POOL)

    @cached_property
    def _pools(self) -> dict[str, Engine]:
        return {}

    def pool(self, purpose: str, make: Callable[[], Engine]) -> Engine:
        """Another pool of connections to this site; made at first use, by one thread.

        Parameters:
            purpose: the name of the pool.
            make: makes the pool.
        """
        with self._making:
            if purpose not in self._pools:
                self._pools[purpose] = make()
            return self._pools[purpose]

    def close(self) -> None:
        """Close the idle connections of all pools."""
        with self._making:
            for engine in self._engines():
                engine.dispose()
            self._pools.clear()

    def release(self) -> None:
        """Stop using sessions that are open now: those in use close when returned.

        For what opens connections outside the pools, where others wait for one, and
        where a session has changed so that work needs a new one.
        """
        self._idle.close()

    def keep_few(self, seconds: float = 0.0) -> None:
        """Close the connections that are idle, but for a few.

        Work that goes on takes the last ones again. What had many open at the same time
        should not keep them from others.

        Parameters:
            seconds: for how long they have been idle at least.
        """
        self._idle.keep_few(seconds)

    def close_unused(self, seconds: float) -> None:
        """Close the connections, if none was taken for a while.

        Parameters:
            seconds: how long that is.
        """
        if time.monotonic() - self._idle.taken_at >= seconds:
            self.release()

    def _engines(self) -> list[Engine]:
        """The pools that were used, of all kinds."""
        own = (self.__dict__.get(name) for name in ("engine", "_for_programs"))
        return [*self._pools.values(), *filter(None, own)]

    def new_engine(
        self,
        *,
        for_programs: bool = False,
        resets: bool = True,
        **options: Any,
    ) -> Engine:
        """Another pool of connections to this site, with our settings.

        Parameters:
            for_programs: whether the role's own search_path holds, for statements that
                are not Snaptide's.
            resets: whether a commit ends what users' triggers have set for the session,
                and the session keeps our statements prepared; neither is so in sessions
                of programs.
            options: options of SQLAlchemy's `create_engine`.
        """
        engine = create_engine(
            self.url.set(drivername=prepared.DRIVERNAME),
            pool_recycle=connections.OLD,
            **options,
            execution_options={
                # Every write is checked against the number of rows that it should
                # change.
                "preserve_rowcount": True,
                "compiled_cache": prepared.COMPILED,
            },
            connect_args={
                "options": libpq_options(FOR_PROGRAMS if for_programs else SETTINGS),
                # The driver prepares none by its count: the tables of statements that
                # are not `Prepared` may change.
                "prepare_threshold": sys.maxsize,
                "connect_timeout": 10,
                "application_name": "snaptide",
                "keepalives_idle": 30,
                "keepalives_interval": 10,
                "keepalives_count": 3,
                # Milliseconds until a connection without acknowledgement is broken.
                "tcp_user_timeout": 60_000,
            },
        )
        self._idle.follow(engine)
        event.listen(engine, "connect", _refuse_old_server)
        resets = resets and not for_programs
        connections.make_ours(engine, resets=resets)
        return engine

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """Open a connection for a program's statements; the program commits.

        Names without a schema are found as in psql: by the role's own search_path.

        Raises:
            SiteUnreachable: the server does not answer or refuses the login.
        """
        with self.session(self._for_programs) as connection:
            yield connection

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """Open a connection as `connect` does, and commit at the end of the block.

        Raises:
            SiteUnreachable: the server does not answer or refuses the login.
        """
        with self.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def session(
        self, engine: Engine | None = None, *, waits: bool = True
    ) -> Iterator[Connection]:
        """Open a connection for Snaptide's own statements; the caller commits.

        Without a schema, only names of PostgreSQL's own are found.

        Parameters:
            engine: a pool of this site, if not its pool `engine`.
            waits: whether to wait for a free connection, as `open` does.

        Raises:
            SiteUnreachable: the server does not answer or refuses the login.
            NoConnectionFree: none is, or became, free.
        """
        with self.open(engine or self.engine, waits=waits) as connection:
            yield connection

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Open a session in a transaction that commits at the end."""
        with self.session() as connection, connection.begin():
            yield connection

    def open(self, engine: Engine, *, waits: bool = True) -> Connection:
        """Open a connection of a pool of this site; the caller commits and closes it.

        Parameters:
            waits: whether to wait for some seconds if all that may be open are in use.
                Work that has a connection there should not: others wait for that one.

        Raises:
            SiteUnreachable: the server does not answer or refuses the login.
            NoConnectionFree: none is, or became, free.
        """
        try:
            return self._connect(engine)
        except (OperationalError, NoneFree) as error:
            return self._open_later(engine, error, waits=waits)

    def _open_later(
        self, engine: Engine, refused: Exception, *, waits: bool
    ) -> Connection:
        """Open a connection although a first attempt failed, or say why not."""
        try:
            if not waits:
                raise refused
            connect = partial(self._connect, engine)
            return full.wait_on(refused, connect, self.address)
        except OperationalError as error:
            kind = NoConnectionFree if full.has_no_room(error) else SiteUnreachable
            raise kind(
                f"Site {self.name} ({self.address}) cannot be reached: "
                f"{address.without_password(self.url, error.orig)}",
                site=self.name,
            ) from None
        except NoneFree:
            raise NoConnectionFree(
                f"Site {self.name} ({self.address}) cannot be reached: all sessions "
                "that this process may have there are in use, and none became free.",
                site=self.name,
            ) from None

    def _connect(self, engine: Engine) -> Connection:
        """Open a connection; if the server has no room, keep none that others need."""
        try:
            return engine.connect()
        except OperationalError as error:
            if full.has_no_room(error):
                self.release()
            raise

    def peer(self, name: str) -> Site:
        """Another site of the same directory.

        Raises:
            UnknownSite: no site of that name is configured.
        """
        return self.directory[name]

    @property
    def address(self) -> str:
        """Host, port and database, for messages."""
        return address.shown(self.url)

    def libpq_uri(self) -> str:
        """A URI with password and our settings, for drivers outside the pool."""
        return address.libpq_uri(self.url)


@contextmanager
def autocommit(*connections: Connection) -> Iterator[None]:
    """Let each statement be a transaction of its own, which saves two round trips.

    The connections must be outside a transaction, and are so afterwards.
    """
    before: list[tuple[Connection, bool]] = []
    try:
        # If one fails, the list has those before it.
        before.extend((one, _set_autocommit(one, on=True)) for one in connections)
        yield
    finally:
        _restore(before)


def _restore(before: list[tuple[Connection, bool]]) -> None:
    """Let connections begin transactions again, each as before, even if one fails.

    One that did not would come from the pool like any other: the statements of its next
    transactions would commit one by one.
    """
    while before:
        one, was = before.pop()
        try:
            if not one.invalidated:
                one.rollback()
                _set_autocommit(one, on=was)
        except BaseException:
            if not one.closed:
                one.invalidate()
            _restore(before)
            raise


def _set_autocommit(connection: Connection, *, on: bool) -> bool:
    """Have the driver begin no transactions, or begin them again; returns what it did.

    SQLAlchemy would note the same as another level of isolation, and undo each change
    of it once more when the pool gets the connection back.
    """
    driver = exchange.driver_of(connection)
    was = driver.autocommit
    if was != on:
        with exchange.reported(connection, said="SET"):
            driver.autocommit = on
    return was


@contextmanager
def reading(connection: Connection) -> Iterator[None]:
    """Let each statement of a block that only reads be a transaction of its own.

    In an open transaction nothing changes.
    """
    if connection.in_transaction():
        yield
    else:
        with autocommit(connection):
            yield


def _refuse_old_server(driver: psycopg.Connection[Any], _record: object) -> None:
    if (version := driver.info.server_version) < OLDEST_VERSION:
        raise UnsupportedDatabase(f"The server is PostgreSQL {version // 10000}.")
