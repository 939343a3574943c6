"""A master table that native replication feeds: it fires no statement trigger."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import groups
import masters
import snapshots
from groups.errors import CannotReplicate
from sites import Directory, Site
from snaptide import doctor, migrate
from snaptide.embedded import PostgresServer
from tests.fix_db import TEST_SETTINGS
from tests.fix_worker import eventually
from tests.linked_table import run

PLAIN = "CREATE TABLE {} (id int PRIMARY KEY, v text){}"
SLOT = "SELECT pg_create_logical_replication_slot(%s, 'pgoutput')"
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


@pytest.mark.usefixtures("spark")
def test_what_no_queue_or_guard_sees_is_told(logical_server: PostgresServer) -> None:
    """A base table and a table of a group: neither has a trigger for such rows."""
    source = logical_server.create_database("source")
    urls = {name: logical_server.create_database(name) for name in ("hq", "jfk")}
    with (
        Directory(urls) as directory,
        psycopg.connect(source, autocommit=True) as publisher,
    ):
        hq, jfk = directory["hq"], directory["jfk"]
        for site in (hq, jfk):
            migrate.upgrade(site)
        for name in ("t", "p"):
            run(hq, PLAIN.format(name, ""))
        masters.create_snapshot_log(hq, "t")
        snapshots.create(jfk, "t", master="hq")
        snapshots.refresh(jfk, "t")
        groups.create_group(hq, "sales")
        groups.add_table(hq, "sales", "t")
        assert _told(hq, "t") == _told(jfk, "snap$_t") == ""
        for name in ("snap$_t", "t", "p"):
            publisher.execute(PLAIN.format(f'"{name}"', ""))
            publisher.execute(f"INSERT INTO \"{name}\" VALUES (1, 'theirs')")
        for site, tables in ((hq, "t, p"), (jfk, '"snap$_t"')):
            publisher.execute(f"CREATE PUBLICATION for_{site.name} FOR TABLE {tables}")
            publisher.execute(SLOT, (site.name,))
            run(
                site,
                f"CREATE SUBSCRIPTION {site.name} CONNECTION '{source}' PUBLICATION"
                f" for_{site.name} WITH (create_slot = false, copy_data = false)",
            )
        try:
            publisher.execute("UPDATE \"snap$_t\" SET v = 'now'")
            publisher.execute("INSERT INTO \"snap$_t\" VALUES (2, 'theirs')")
            _wait_for(jfk, '"snap$_t"', [(2, "theirs")])
            assert "Subscription jfk writes it" in _told(jfk, "snap$_t")
            assert "from subscription hq" in _told(hq, "t")
            with pytest.raises(CannotReplicate, match="from subscription hq"):
                groups.add_table(hq, "sales", "p")
        finally:
            for site in (hq, jfk):
                run(site, f"ALTER SUBSCRIPTION {site.name} DISABLE")
                run(site, f"ALTER SUBSCRIPTION {site.name} SET (slot_name = NONE)")
                run(site, f"DROP SUBSCRIPTION {site.name}")


def _told(site: Site, subject: str) -> str:
    """What doctor says of a table."""
    return " ".join(f.what for f in doctor.examine(site) if f.subject == subject)


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
