"""A master table that native replication feeds: it fires no statement trigger."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import masters
from sites import Directory, Site
from snaptide import migrate
from snaptide.embedded import PostgresServer
from tests.fix_db import TEST_SETTINGS
from tests.fix_worker import eventually
from tests.linked_table import run

PLAIN = "CREATE TABLE {} (id int PRIMARY KEY, v text){}"
PARTITIONED = " PARTITION BY RANGE (id)"


@pytest.fixture
def logical_server(pg_version: int) -> Iterator[PostgresServer]:
    """A server whose changes can be published."""
    folder = Path(tempfile.mkdtemp(prefix="snaptide-pg-"))
    settings = {**TEST_SETTINGS, "wal_level": "logical"}
    server = PostgresServer(folder, pg_version, settings=settings)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)


def test_what_a_subscription_writes_is_captured(logical_server: PostgresServer) -> None:
    source = logical_server.create_database("source")
    directory = Directory({"hq": logical_server.create_database("hq")})
    hq = directory["hq"]
    migrate.upgrade(hq)
    with psycopg.connect(source, autocommit=True) as publisher:
        for table in ("t", "p"):
            publisher.execute(PLAIN.format(table, ""))
            publisher.execute(f"INSERT INTO {table} VALUES (1, 'before')")
        publisher.execute("CREATE PUBLICATION all_of_it FOR ALL TABLES")
        publisher.execute("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
        run(
            hq,
            PLAIN.format("t", ""),
            PLAIN.format("p", PARTITIONED),
            "CREATE TABLE p_low PARTITION OF p FOR VALUES FROM (0) TO (10)",
            "CREATE TABLE p_high PARTITION OF p FOR VALUES FROM (10) TO (20)",
        )
        for table in ("t", "p"):
            masters.create_snapshot_log(hq, table)
        run(
            hq,
            f"CREATE SUBSCRIPTION s CONNECTION '{source}' PUBLICATION all_of_it"
            " WITH (create_slot = false, slot_name = 's')",
        )
        try:
            _follow(publisher, hq)
        finally:
            run(hq, "ALTER SUBSCRIPTION s DISABLE")
            run(hq, "ALTER SUBSCRIPTION s SET (slot_name = NONE)")
            run(hq, "DROP SUBSCRIPTION s")
            directory.close()


def _follow(publisher: "psycopg.Connection[tuple[object, ...]]", hq: Site) -> None:
    for table in ("t", "p"):
        _wait_for(hq, table, [(1, "before")])
        publisher.execute(f"INSERT INTO {table} VALUES (2, 'two'), (3, 'three')")
        publisher.execute(f"UPDATE {table} SET v = 'changed' WHERE id = 1")
        publisher.execute(f"UPDATE {table} SET id = 12 WHERE id = 2")
        publisher.execute(f"DELETE FROM {table} WHERE id = 3")
        _wait_for(hq, table, [(1, "changed"), (12, "two")])
        # COPY of what was there fires statement triggers, all else the row trigger.
        assert _logged(hq, table) == {1, 2, 3, 12}
        publisher.execute(f"TRUNCATE {table}")
        _wait_for(hq, table, [])
        assert None in _logged(hq, table)


def _wait_for(hq: Site, table: str, expected: list[tuple[object, ...]]) -> None:
    query = f"SELECT id, v FROM public.{table} ORDER BY id"
    eventually(lambda: run(hq, query) == expected, what=f"{expected} in {table}")


def _logged(hq: Site, table: str) -> set[object]:
    return {k for (k,) in run(hq, f'SELECT k1 FROM snaptide."mlog$_{table}"')}
