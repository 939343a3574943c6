"""Rows of a COPY out, handed on as libpq has them."""

from __future__ import annotations

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from sites import Site
from sites.sessions.exchange import raw
from sites.transfer import transport

#: Shorter and longer than a piece, with bytes that look like the end of rows.
ROWS = (
    "SELECT i, repeat(E'\\\\.\\n\\t', i % 3 * 10000), decode('00ff5c0a', 'hex')"
    " FROM generate_series(1, 500) i"
)


def _by_psycopg(driver: psycopg.Connection[tuple[object, ...]], query: str) -> bytes:
    with driver.cursor() as cursor, cursor.copy(query) as rows:
        return b"".join(map(bytes, rows))


@pytest.mark.parametrize("form", ["text", "binary"])
def test_all_that_psycopg_reads(hq: Site, form: str) -> None:
    query = f"COPY ({ROWS}) TO STDOUT (FORMAT {form})"
    told: list[int] = []
    found: list[bytes] = []
    with hq.transaction() as connection:
        driver = raw(connection)
        expected = _by_psycopg(driver, query)
        with driver.cursor() as cursor, cursor.copy(query) as rows:
            count = transport.hand_on(rows, found.append, told.append)
        # The connection is free for the next statement.
        assert connection.scalar(text("SELECT 1")) == 1
    assert b"".join(found) == expected
    # In binary, the trailer comes as a row does.
    assert count == 500 + (form == "binary")
    assert len(found) > 10
    assert all(len(one) >= transport.PIECE for one in found[:-1])


def test_progress_is_told(hq: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "COUNTED", 200)
    told: list[int] = []
    with hq.transaction() as connection:
        driver = raw(connection)
        with driver.cursor() as cursor, cursor.copy(f"COPY ({ROWS}) TO STDOUT") as rows:
            transport.hand_on(rows, lambda _: None, told.append)
    assert told == [200, 400]


@pytest.mark.parametrize("last", [1, 300, 100_000])
def test_copy_that_fails_says_why(hq: Site, last: int) -> None:
    """At its first row, while rows come, and long after rows have come."""
    failing = f"SELECT 1 / ({last} - i) FROM generate_series(1, {last}) i"
    with hq.transaction() as connection:
        inner = connection.begin_nested()
        with pytest.raises(DBAPIError, match="division by zero") as failed:
            transport.copy_out(connection, failing, lambda _: None)
        assert isinstance(failed.value.orig, psycopg.errors.DivisionByZero)
        inner.rollback()
        assert connection.scalar(text("SELECT 1")) == 1


def test_taker_that_fails_ends_the_copy(hq: Site) -> None:
    def refuse(_: bytes) -> None:
        raise OSError("no room")

    many = "SELECT repeat('x', 1000) FROM generate_series(1, 100000)"
    with hq.transaction() as connection:
        inner = connection.begin_nested()
        with pytest.raises(OSError, match="no room"):
            transport.copy_out(connection, many, refuse)
        inner.rollback()
        assert connection.scalar(text("SELECT 1")) == 1


def test_session_that_is_ended_meanwhile(hq: Site) -> None:
    ending = (
        "SELECT i, CASE i WHEN 900 THEN pg_terminate_backend(pg_backend_pid()) END"
        " FROM generate_series(1, 1000000) i"
    )
    with pytest.raises(DBAPIError) as failed, hq.transaction() as connection:
        transport.copy_out(connection, ending, lambda _: None)
    assert failed.value.connection_invalidated
