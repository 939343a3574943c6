"""Servers whose databases are restored, moved and promoted, as operators do it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from sites import Directory
from snaptide import migrate
from snaptide.embedded import PostgresServer
from snaptide.embedded.account import server_account
from snaptide.embedded.binaries import postgres_binaries
from tests.fix_db import QUIET_SETTINGS, new_folder


class Home:
    """A server of its own for one site, with what an operator does to it."""

    def __init__(self, version: int) -> None:
        self.folder = new_folder("snaptide-home-")
        # The server's account must be able to enter what is made below.
        self.folder.chmod(0o755)
        self._version = version
        self._made: list[PostgresServer] = []
        self.server = self._server("server")
        self.server.start()
        self.query("CREATE ROLE snaptide_apply NOLOGIN")

    def query(self, statement: str, database: str = "postgres") -> None:
        """Run one statement as the superuser."""
        with psycopg.connect(self.server.url(database), autocommit=True) as session:
            session.execute(statement)

    def burn(self, number: int) -> None:
        """Use transaction ids up."""
        self.query(
            f"DO $$ BEGIN FOR i IN 1..{number} LOOP"
            " PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$"
        )

    def copy_files(self) -> Path:
        """A copy of the stopped server's files, as a virtual machine's snapshot is."""
        self.server.stop()
        copy = self._copied(self.server.folder / "data", "files")
        self.server.start()
        return copy

    def put_files_back(self, copy: Path) -> None:
        """Roll the server back to a copy of its files."""
        self.server.stop()
        data = self.server.folder / "data"
        shutil.rmtree(data)
        _cp(copy, data)
        self.server.start()

    def beside(self, copy: Path) -> PostgresServer:
        """Start another server on a copy of this one's files."""
        other = self._server("beside")
        other.folder.mkdir()
        _cp(self.server.folder / "password", other.folder / "password")
        _cp(copy, other.folder / "data")
        other.start()
        return other

    def base_backup(self) -> Path:
        """The files of a standby that stops to receive at this moment."""
        standby = self._named("standby")
        self._run("pg_basebackup", "-D", standby, "-d", self.server.url(), "-c", "fast")
        (standby / "standby.signal").touch()
        owner = f"--reference={self.server.folder / 'data'}"
        subprocess.run(["chown", "-R", owner, str(standby)], check=True)
        return standby

    def promote(self, standby: Path) -> PostgresServer:
        """Start the standby, and make it a server that is written to."""
        other = self.beside(standby)
        with psycopg.connect(other.url(), autocommit=True) as session:
            session.execute("SELECT pg_promote()")
        return other

    def dump(self, database: str) -> Path:
        """A dump of a database, to be loaded anywhere."""
        path = self._named("dump")
        path.write_bytes(self._run("pg_dump", self.server.url(database)))
        return path

    def load(self, dump: Path, database: str) -> str:
        """Load a dump into a new database of this server, and return its URL."""
        url = self.server.create_database(database)
        self._run("psql", "-qX", "-v", "ON_ERROR_STOP=1", url, stdin=dump.read_bytes())
        return url

    def close(self) -> None:
        """Stop all servers and remove their files."""
        for server in self._made:
            server.stop()
        shutil.rmtree(self.folder)

    def _server(self, label: str) -> PostgresServer:
        made = PostgresServer(
            self._named(label), self._version, settings=QUIET_SETTINGS
        )
        self._made.append(made)
        return made

    def _named(self, label: str) -> Path:
        return self.folder / f"{label}-{len(list(self.folder.iterdir()))}"

    def _copied(self, source: Path, label: str) -> Path:
        target = self._named(label)
        _cp(source, target)
        return target

    def _run(self, program: str, *arguments: object, stdin: bytes = b"") -> bytes:
        account = server_account(self.server.folder / "data")
        path = postgres_binaries(self._version, account) / program
        # As this process's own account: it has made the folder that is written to.
        done = subprocess.run(
            [str(path), *map(str, arguments)], input=stdin, capture_output=True
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout


def _cp(source: Path, target: Path) -> None:
    """Copy with owners and modes."""
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)


@pytest.fixture(scope="session")
def make_home(pg_version: int) -> Iterator[Callable[[str], Home]]:
    """A function that starts a server of that name, the first time it is asked."""
    made: dict[str, Home] = {}

    def make(name: str) -> Home:
        if name not in made:
            made[name] = Home(pg_version)
        return made[name]

    yield make
    for home in made.values():
        home.close()


def new_site(home: Home, name: str, database: str) -> str:
    """Make a database with the schema snaptide, and return its URL."""
    url = home.server.create_database(database)
    directory = Directory({name: url})
    migrate.upgrade(directory[name])
    directory.close()
    return url
