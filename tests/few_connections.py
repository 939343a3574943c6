"""A master on a server of its own that allows few connections."""

from __future__ import annotations

import psycopg

from sites import Site
from snaptide import migrate
from snaptide.embedded import PostgresServer
from tests.fix_sites import log
from tests.linked_table import run


def allow(server: PostgresServer, connections: int) -> None:
    """Restart a server so that it allows so many connections, superusers included."""
    with psycopg.connect(server.url(), autocommit=True) as session:
        session.execute(f"ALTER SYSTEM SET max_connections = {connections}")
        session.execute("ALTER SYSTEM SET superuser_reserved_connections = 0")
    server.stop()
    server.start()


def make_master(hq: Site) -> None:
    """Give a new database the schema snaptide, and a table with a log."""
    migrate.upgrade(hq)
    run(hq, "CREATE TABLE t (id int PRIMARY KEY, n int)")
    log(hq, "t")
