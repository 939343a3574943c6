"""PostgreSQL for tests: servers for the run, databases for a test."""

import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql
from psycopg.pq import TransactionStatus
from tenacity import retry, retry_if_exception_type, stop_after_delay

from snaptide.embedded import PostgresServer
from tests.fix_secrets import watched

TEST_SETTINGS = {
    # Killing a server does not lose what it gave to the system's cache: tests of a
    # killed server hold without it, and every CREATE DATABASE is faster.
    "fsync": "off",
    "full_page_writes": "off",
    # Sessions come by the ten thousand, and each proves that it knows the password.
    "scram_iterations": "1",
}

#: What the server does by itself, and when, is no part of a test: a transaction of
#: autovacuum keeps a purge from rows that nobody needs.
QUIET_SETTINGS = {**TEST_SETTINGS, "autovacuum": "off"}

Kind = TypeVar("Kind", bound=PostgresServer)

#: So many databases that tests have left are dropped at a time.
LEFT = 16

#: Databases come and go by the thousand, and a busy disk takes long over each.
_MEMORY = Path("/dev/shm")
_ROOM = 6 * 2**30


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--pg", type=int, default=18, help="major version of PostgreSQL (16 or 18)"
    )


def pytest_report_header(config: pytest.Config) -> str:
    return f"PostgreSQL: {config.getoption('--pg')}"


class LongRunning(PostgresServer):
    """A server that runs as long as the tests do.

    Each test makes and drops several databases: they share one session, which takes as
    long to open as a database takes to be copied.
    """

    _session: psycopg.Connection | None = None

    @property
    def session(self) -> psycopg.Connection:
        """A session of the superuser's; another one if a test broke off in it."""
        if self._session is None or not _is_free(self._session):
            self._end_session()
            self._session = psycopg.connect(self.url(), autocommit=True)
        return self._session

    def stop(self) -> None:
        """Stop the server, and end the session before."""
        self._end_session()
        super().stop()

    def _end_session(self) -> None:
        if self._session is not None:
            self._session.close()

    def _execute(self, statement: sql.Composed) -> None:
        self.session.execute(statement)


def _is_free(session: psycopg.Connection) -> bool:
    return session.info.transaction_status is TransactionStatus.IDLE


class MakeDatabase(Protocol):
    """Create an empty database and return its URL."""

    def __call__(self, label: str = "db", on: PostgresServer | None = None) -> str: ...


class TemplateDatabase(Protocol):
    """Prepare a database once per run and return its name, to be cloned by tests."""

    def __call__(
        self,
        name: str,
        prepare: Callable[[str], None],
        on: PostgresServer | None = None,
    ) -> str: ...


class Leave(Protocol):
    """Take databases that a test no longer needs."""

    def __call__(self, made: list[tuple[PostgresServer, str]]) -> None: ...


class Clone(Protocol):
    """Create a copy of a template database and return its URL."""

    def __call__(
        self, template: str, label: str = "db", on: PostgresServer | None = None
    ) -> str: ...


@pytest.fixture(scope="session")
def pg_version(pytestconfig: pytest.Config) -> int:
    """The major version of PostgreSQL that this run is about."""
    version: int = pytestconfig.getoption("--pg")
    return version


@pytest.fixture(scope="session")
def server(pg_version: int) -> Iterator[LongRunning]:
    """The PostgreSQL server of this run; leave it running."""
    yield from _running(pg_version, LongRunning)


@pytest.fixture(scope="session")
def second_server(pg_version: int) -> Iterator[PostgresServer]:
    """Another PostgreSQL server of this run, for what one server would hide."""
    yield from _running(pg_version, LongRunning)


@pytest.fixture
def own_server(pg_version: int) -> Iterator[PostgresServer]:
    """A PostgreSQL server of the test's own, that it may stop and kill."""
    yield from _running(pg_version, PostgresServer)


@pytest.fixture(scope="session")
def leave(server: LongRunning) -> Leave:
    """A function that is left databases which a test no longer needs.

    A drop waits 100 ms for a session that is about to end, so those of the run's server
    are dropped some tests later.
    """
    left: list[str] = []

    def take(made: list[tuple[PostgresServer, str]]) -> None:
        here = [name for home, name in made if home is server]
        if here and _are_free(server, here):
            left.extend(here)
            made = [one for one in made if one[0] is not server]
        if len(left) >= LEFT:
            made = [*made, *((server, name) for name in left)]
            left.clear()
        _drop(made)

    return take


@pytest.fixture
def make_database(server: PostgresServer, leave: Leave) -> Iterator[MakeDatabase]:
    """A function that creates databases; they are dropped after the test."""
    made: list[tuple[PostgresServer, str]] = []

    def make(label: str = "db", on: PostgresServer | None = None) -> str:
        home, name = on or server, random_name(label)
        made.append((home, name))
        return home.create_database(name)

    yield make
    leave(made)


@pytest.fixture(scope="session")
def template_database(server: PostgresServer) -> TemplateDatabase:
    """A function that makes a template the first time it is asked for it."""
    made: set[tuple[str, PostgresServer]] = set()

    def template(
        name: str,
        prepare: Callable[[str], None],
        on: PostgresServer | None = None,
    ) -> str:
        home = on or server
        if (name, home) not in made:
            prepare(home.create_database(name))
            close_for_connections(home, name)
            made.add((name, home))
        return name

    return template


@pytest.fixture
def clone(server: PostgresServer, leave: Leave) -> Iterator[Clone]:
    """A function that copies templates; the copies are dropped after the test."""
    made: list[tuple[PostgresServer, str]] = []

    def copy(template: str, label: str = "db", on: PostgresServer | None = None) -> str:
        home, name = on or server, random_name(label)
        made.append((home, name))
        return home.create_database(name, template=template)

    yield copy
    leave(made)


def new_folder(prefix: str) -> Path:
    """A folder for a server's files: in memory, where that has room for a suite."""
    roomy = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _ROOM
    return Path(tempfile.mkdtemp(prefix=prefix, dir=_MEMORY if roomy else None))


def _running(version: int, kind: type[Kind]) -> Iterator[Kind]:
    folder = new_folder("snaptide-pg-")
    server = kind(folder, version, settings=QUIET_SETTINGS)
    try:
        server.start()
        watched.remember(str(urlsplit(server.url()).password))
        yield server
    finally:
        server.stop()
        watched.look_at(server.log.read_bytes(), str(server.log))
        shutil.rmtree(folder)


def random_name(label: str) -> str:
    # Not from `random`: it is seeded anew for each test, and would repeat itself.
    return f"{label}_{secrets.token_hex(4)}"


#: What keeps databases that are left: prepared transactions, and roles of a test, which
#: it can drop only after all that they have or may do there.
_HOLD = """
SELECT count(*) FROM pg_prepared_xacts WHERE database = ANY(%(names)s)
UNION ALL SELECT count(*)
  FROM pg_shdepend d JOIN pg_roles r ON r.oid = d.refobjid
  JOIN pg_database b ON b.oid IN (d.dbid, d.objid)
 WHERE d.refclassid = 'pg_authid'::regclass AND b.datname = ANY(%(names)s)
   AND (d.dbid <> 0 OR d.classid = 'pg_database'::regclass)
   AND NOT r.rolsuper AND r.rolname !~ '^(pg|snaptide)_'
"""


def _are_free(home: LongRunning, names: list[str]) -> bool:
    """End the sessions of databases; whether these can be dropped at any time.

    What is open there would hold up what the next test purges.
    """
    end = (
        "SELECT pg_terminate_backend("
        "pid, CASE WHEN xact_start IS NULL THEN 0 ELSE 90000 END)"
        " FROM pg_stat_activity WHERE datname = ANY(%s)"
    )
    home.session.execute(end, [names])
    found = home.session.execute(_HOLD, {"names": names}).fetchall()
    return found == [(0,), (0,)]


def _drop(made: list[tuple[PostgresServer, str]]) -> None:
    for home, name in made:
        if home.is_running():
            _drop_one(home, name)


@retry(
    # The server waits 5 seconds for sessions to end; some get no processor for as long.
    retry=retry_if_exception_type(psycopg.errors.ObjectInUse),
    stop=stop_after_delay(90),
    reraise=True,
)
def _drop_one(home: PostgresServer, name: str) -> None:
    home.drop_database(name)


def close_for_connections(home: PostgresServer, name: str) -> None:
    """A session left in a template would make every copy fail: allow none."""
    statement = sql.SQL("ALTER DATABASE {} WITH ALLOW_CONNECTIONS false").format(
        sql.Identifier(name)
    )
    end = (
        "SELECT pg_terminate_backend(pid, 90000) FROM pg_stat_activity "
        "WHERE datname = %s"
    )
    with psycopg.connect(home.url(), autocommit=True) as connection:
        connection.execute(statement)
        connection.execute(end, [name])
