"""The servers that histories are played on, and fresh databases for a world."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import cached_property
from pathlib import Path

import psycopg
from psycopg import sql

from sites import Directory
from sites.sessions import identity
from snaptide import migrate
from snaptide.embedded import PostgresServer
from tests.fix_clock import FILE, Clock, faked_time
from tests.fix_db import QUIET_SETTINGS, new_folder

#: Encodings that the databases of a world may have.
ENCODINGS = ("UTF8", "LATIN1")


class Ground:
    """A server and, where asked for, one with a clock of its own; with templates."""

    def __init__(self, version: int, stack: ExitStack) -> None:
        self._version, self._stack = version, stack
        self._made = 0
        self._server = self._started(new_folder("snaptide-histories-"), ENCODINGS)

    @cached_property
    def _with_clock(self) -> tuple[PostgresServer, Clock]:
        folder = new_folder("snaptide-histories-")
        clock = Clock(folder / FILE)
        clock.set(timedelta(0))
        with faked_time(folder):
            return self._started(folder, ENCODINGS[:1]), clock

    @property
    def clock(self) -> Clock:
        """The clock of the second server."""
        return self._with_clock[1]

    @contextmanager
    def sites(
        self, encodings: Mapping[str, str], with_clock: Sequence[str] = ()
    ) -> Iterator[Directory]:
        """Initialised sites by name and encoding; they are dropped afterwards.

        Parameters:
            with_clock: which of them are on the server with a clock of its own.
        """
        self._made += 1
        homes = {
            name: self._with_clock[0] if name in with_clock else self._server
            for name in encodings
        }
        urls = {
            name: homes[name].create_database(
                f"{name}_{self._made}", template=encoding.lower()
            )
            for name, encoding in encodings.items()
        }
        sites = Directory(urls)
        try:
            for name in urls:
                with sites[name].transaction() as connection:
                    identity.record(connection, name)
            yield sites
        finally:
            sites.close()
            for name, home in homes.items():
                home.drop_database(f"{name}_{self._made}")

    def empty(self, name: str) -> str:
        """An initialised site of a name that has nothing; its URL."""
        self._made += 1
        made = self._server.create_database(
            f"{name}_{self._made}", template=ENCODINGS[0].lower()
        )
        with Directory({name: made}) as sites, sites[name].transaction() as connection:
            identity.record(connection, name)
        return made

    def copy(self, url: str) -> str:
        """A copy of a database where nobody is at this moment; its URL."""
        self._made += 1
        name = url.rpartition("/")[2]
        return self._server.create_database(f"copy_{self._made}", template=name)

    def drop(self, url: str) -> None:
        """Drop what `empty` or `copy` has made."""
        self._server.drop_database(url.rpartition("/")[2])

    def _started(self, folder: Path, encodings: Sequence[str]) -> PostgresServer:
        server = PostgresServer(folder, self._version, settings=QUIET_SETTINGS)
        self._stack.callback(shutil.rmtree, folder)
        self._stack.callback(server.stop)
        server.start()
        for encoding in encodings:
            _template(server, encoding)
        return server


@contextmanager
def ground(version: int = 18) -> Iterator[Ground]:
    """Servers that are gone at the end of the block."""
    with ExitStack() as stack:
        yield Ground(version, stack)


def _template(server: PostgresServer, encoding: str) -> None:
    name = encoding.lower()
    statement = sql.SQL(
        "CREATE DATABASE {} TEMPLATE template0 ENCODING {} LOCALE 'C'"
        " LOCALE_PROVIDER libc"
    )
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(
            statement.format(sql.Identifier(name), sql.Literal(encoding))
        )
    directory = Directory({"template": server.url(name)})
    migrate.upgrade(directory["template"])
    with directory["template"].begin() as connection:
        connection.exec_driver_sql("DELETE FROM snaptide.site_identity")
    directory.close()
