"""The embedded servers: they start, stop, come back, and keep their password."""

import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from redis import Redis

from snaptide.embedded import EmbeddedServerError, PostgresServer, RedisServer
from tests.fix_db import Clone, MakeDatabase, TemplateDatabase


def ask(url: str, question: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(question).fetchone()
    assert row is not None
    return row[0]


def test_settings(server: PostgresServer, pg_version: int) -> None:
    assert str(ask(server.url(), "SHOW server_version")).startswith(f"{pg_version}.")
    assert ask(server.url(), "SHOW max_prepared_transactions") == "64"
    assert ask(server.url(), "SHOW server_encoding") == "UTF8"
    assert ask(server.url(), "SHOW timezone") == "UTC"


def test_start_keeps_a_running_server(server: PostgresServer) -> None:
    born = ask(server.url(), "SELECT pg_postmaster_start_time()")
    PostgresServer(server.folder, server.version).start()
    assert ask(server.url(), "SELECT pg_postmaster_start_time()") == born


def test_stop_and_start_again(own_server: PostgresServer) -> None:
    url = own_server.create_database("kept")
    own_server.stop()
    assert not own_server.is_running()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)
    own_server.start()
    assert ask(url, "SELECT current_database()") == "kept"


def test_kill_leaves_nobody_and_loses_nothing(own_server: PostgresServer) -> None:
    with psycopg.connect(own_server.url(), autocommit=True) as session:
        session.execute("CREATE TABLE kept AS SELECT 1 AS a")
        own_server.kill()
        with pytest.raises(psycopg.OperationalError):
            session.execute("SELECT 1")
    assert (own_server.folder / "data" / "postmaster.pid").exists()
    own_server.start()
    assert ask(own_server.url(), "SELECT a FROM kept") == 1


def test_another_program_finds_and_stops_it(own_server: PostgresServer) -> None:
    other = PostgresServer(own_server.folder, own_server.version)
    assert other.is_running()
    other.stop()
    assert not own_server.is_running()


def test_password_is_needed_and_not_shown(server: PostgresServer) -> None:
    password = urlsplit(server.url()).password
    assert password
    assert password not in repr(server)
    file = server.folder / "password"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    wrong = server.url().replace(password, "wrong")
    with pytest.raises(psycopg.OperationalError) as caught:
        psycopg.connect(wrong)
    assert password not in str(caught.value)


def test_taken_port_is_said(own_server: PostgresServer) -> None:
    own_server.stop()
    password = urlsplit(own_server.url()).password
    with (
        socket.create_server(("127.0.0.1", own_server.port)),
        pytest.raises(EmbeddedServerError, match="used by another program") as caught,
    ):
        own_server.start()
    assert str(own_server.folder / "port") in caught.value.hint
    assert str(password) not in f"{caught.value} {caught.value.hint}"


def test_failed_start_shows_the_log(own_server: PostgresServer) -> None:
    own_server.stop()
    configuration = own_server.folder / "data" / "postgresql.conf"
    right = configuration.read_text()
    configuration.write_text(right + "\nno_such_setting = 1\n")
    with pytest.raises(EmbeddedServerError, match="no_such_setting"):
        own_server.start()


def test_unknown_version(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedServerError, match="no embedded PostgreSQL 9"):
        PostgresServer(tmp_path, 9).start()


def test_another_version_of_the_data(own_server: PostgresServer) -> None:
    own_server.stop()
    other = 16 if own_server.version == 18 else 18
    with pytest.raises(EmbeddedServerError, match="belongs to PostgreSQL"):
        PostgresServer(own_server.folder, other).start()


def test_databases_are_dropped_even_when_used(
    server: PostgresServer, make_database: MakeDatabase
) -> None:
    url = make_database("used")
    session = psycopg.connect(url)
    server.drop_database(urlsplit(url).path[1:])
    with pytest.raises(psycopg.OperationalError):
        session.execute("SELECT 1")
    session.close()


def test_template_is_prepared_once_and_copied(
    template_database: TemplateDatabase, clone: Clone
) -> None:
    prepared = []

    def prepare(url: str) -> None:
        prepared.append(url)
        # Left open on purpose: it must not hinder the copies.
        leak = psycopg.connect(url, autocommit=True)
        leak.execute("CREATE TABLE a AS SELECT 7 AS b")
        leaks.append(leak)

    leaks: list[psycopg.Connection[tuple[object, ...]]] = []
    for _ in range(2):
        template = template_database("test_template", prepare)
    first, second = clone(template), clone(template)
    assert first != second
    assert len(prepared) == 1
    assert ask(first, "SELECT b FROM a") == ask(second, "SELECT b FROM a") == 7
    for leak in leaks:
        leak.close()


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path)
    server.start()
    yield server
    server.stop()


def test_redis_answers(redis_server: RedisServer) -> None:
    with Redis.from_url(redis_server.url()) as client:
        assert client.ping()


def test_redis_comes_back_at_its_address(own_redis: RedisServer) -> None:
    url = own_redis.url()
    own_redis.kill()
    assert not own_redis.is_running()
    own_redis.start()
    assert own_redis.url() == url
    with Redis.from_url(url) as client:
        assert client.dbsize() == 0


def test_redis_says_that_its_port_is_taken(own_redis: RedisServer) -> None:
    own_redis.stop()
    with (
        socket.create_server(("127.0.0.1", own_redis.port)),
        pytest.raises(EmbeddedServerError, match="used by another program"),
    ):
        own_redis.start()
