"""What the benchmarks run on: a master and a site on an embedded server, fsync on."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, text

from sites import Directory, Site
from sites.catalog import site_identity
from sites.configured import Configuration, configure
from sites.sessions import identity
from snapshots.differences import warming
from snaptide import migrate
from snaptide.embedded import PostgresServer
from tests.fix_proxy import Proxy

#: The table of all benchmarks: seven columns, a note of forty characters.
COLUMNS = (
    "id int PRIMARY KEY, region text, customer int, qty int, price numeric(10,2),"
    " note text, updated_at timestamptz"
)
NAMES = ("id", "region", "customer", "qty", "price", "note", "updated_at")

#: A row of that table for the number g.
ROW = (
    "g, 'r' || g % 10, g % 1000, g % 50, g % 10000 / 100.0,"
    " rpad(md5(g::text), 40, 'x'), timestamptz '2026-01-01' + g * interval '1 second'"
)


#: Milliseconds that a flush takes longer than on this disk, where that is asked for.
FLUSH = 0.5

#: Seconds that a message to a master far away takes, in each direction.
DELAY = 0.0025

#: Of the servers, and of Spark; and where the server's log is left.
_settings: dict[str, str] = {}
_spark: dict[str, str] = {}
_log: Path | None = None


def profile_to(log: Path, events: Path) -> None:
    """Have servers log every statement to a file, and Spark its events to a folder."""
    global _log
    _log = log
    _settings.update(log_min_duration_statement="0", log_parameter_max_length="0")
    _spark.update(
        {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": events.as_uri(),
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
        }
    )


@contextmanager
def far_master(sites: Directory) -> Iterator[Directory]:
    """The same two sites, with the master far away."""
    proxy = Proxy(sites["hq"].url.render_as_string(hide_password=False))
    proxy.delay = DELAY
    proxy.start()
    try:
        with Directory({"jfk": sites["jfk"].url, "hq": proxy.url}) as far:
            yield far
    finally:
        proxy.stop()


@contextmanager
def directory(
    *names: str,
    prepare: Callable[[Directory], None] = lambda _: None,
    **settings: str,
) -> Iterator[Directory]:
    """Initialised sites on a server of their own, gone afterwards.

    Parameters:
        prepare: what all of them begin with; it gets the first, before it is copied.
        settings: more of the server's.
    """
    with tempfile.TemporaryDirectory(prefix="snaptide-bench-") as folder:
        Path(folder).chmod(0o755)  # the server may have to run as another user
        given = {**settings, **_settings}
        server = PostgresServer(Path(folder) / "postgresql", settings=given)
        server.start()
        made = _initialised(server, prepare, *names)
        try:
            configure(Configuration(directory=made, spark_conf=_spark))
            yield made
        finally:
            made.close()
            server.stop()
            if _log is not None:
                shutil.copy(server.log, _log)


def _initialised(
    server: PostgresServer,
    prepare: Callable[[Directory], None],
    first: str,
    *others: str,
) -> Directory:
    """One site is initialised, and the others are copies of it under other names."""
    urls = {first: server.create_database(first)}
    original = Directory(urls)
    migrate.upgrade(original[first])
    prepare(original)
    original.close()
    urls |= {name: server.create_database(name, template=first) for name in others}
    made = Directory(urls)
    for name in others:
        with made[name].transaction() as connection:
            connection.execute(site_identity.delete())
            identity.record(connection, name)
    return made


def create_orders(connection: Connection, rows: int, name: str = "orders") -> None:
    """Create the table of the benchmarks and fill it."""
    plain = COLUMNS.replace(" PRIMARY KEY", "")
    connection.execute(text(f"CREATE TABLE public.{name} ({plain})"))
    connection.execute(
        text(
            f"INSERT INTO public.{name} SELECT {ROW} FROM generate_series(1, :rows) g"
        ),
        {"rows": rows},
    )
    connection.execute(text(f"ALTER TABLE public.{name} ADD PRIMARY KEY (id)"))
    connection.execute(text(f"ANALYZE public.{name}"))


def slow_down(site: Site) -> str:
    """Let each flush to disk take longer; all sites of the server obey at once.

    The bars come from a disk that took its time. Where one hardly takes any, they
    compare round trips and Python instead of ways to commit.

    Returns:
        How to say so behind the name of a benchmark.
    """
    with site.connect() as connection:
        alone = connection.execution_options(isolation_level="AUTOCOMMIT")
        alone.execute(text(f"ALTER SYSTEM SET commit_delay = {int(FLUSH * 1000)}"))
        alone.execute(text("ALTER SYSTEM SET commit_siblings = 0"))
        alone.execute(text("SELECT pg_reload_conf()"))
    return f", flushes {FLUSH:g} ms slower"


def warm() -> None:
    """Have Spark as warm as a worker has it that has been up for a minute."""
    for _ in warming.comparisons():
        pass


def tidy(site: Site, *tables: str) -> None:
    """Leave no work of earlier rounds to the background: vacuum, write out."""
    with site.connect() as connection:
        autocommit = connection.execution_options(isolation_level="AUTOCOMMIT")
        for table in tables:
            autocommit.execute(text(f"VACUUM {table}"))
        autocommit.execute(text("CHECKPOINT"))
