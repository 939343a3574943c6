"""Blocks in which each statement is a transaction of its own."""

from __future__ import annotations

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy import Connection

from sites import Site
from sites.sessions.site import autocommit
from tests.linked_table import run

_ADD = sa.text("INSERT INTO public.bags VALUES (1)")


@pytest.fixture
def bags(hq: Site) -> Site:
    run(hq, "CREATE TABLE bags (id int)")
    return hq


def visible(site: Site) -> int:
    return len(run(site, "SELECT * FROM bags"))


def holds_back(connection: Connection, site: Site) -> bool:
    """Whether what a connection writes is seen only when it commits."""
    before = visible(site)
    connection.execute(_ADD)
    seen = visible(site)
    connection.rollback()
    return seen == before


def _driver(connection: Connection) -> psycopg.Connection[object]:
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    return driver


def test_each_statement_commits_until_the_block_ends(bags: Site) -> None:
    with bags.session() as connection, bags.session() as another:
        with autocommit(connection):
            assert not holds_back(connection, bags)
            with autocommit(connection, another):
                assert not holds_back(another, bags)
            assert holds_back(another, bags)
            assert not holds_back(connection, bags)
        assert holds_back(connection, bags)


def test_transactions_begin_again_after_a_block_that_failed(bags: Site) -> None:
    with bags.session() as connection:
        with pytest.raises(sa.exc.DBAPIError), autocommit(connection):
            connection.execute(sa.text("SELECT 1 / 0"))
        assert holds_back(connection, bags)
    with bags.session() as connection:
        assert holds_back(connection, bags)


@pytest.mark.parametrize("place", [0, 1])
def test_transactions_begin_again_where_another_connection_broke(
    bags: Site, place: int
) -> None:
    with bags.session() as connection, bags.session() as broken:
        both = [connection]
        both.insert(place, broken)
        with pytest.raises(sa.exc.OperationalError), autocommit(*both):
            _driver(broken).close()
        assert holds_back(connection, bags)
        assert broken.invalidated


def test_transactions_begin_again_if_a_block_cannot_begin(bags: Site) -> None:
    with bags.session() as connection, bags.session() as broken:
        _driver(broken).close()
        with pytest.raises(sa.exc.OperationalError), autocommit(connection, broken):
            pass
        assert holds_back(connection, bags)


def test_level_of_isolation_stays_what_it_was(bags: Site) -> None:
    level = sa.text("SHOW transaction_isolation")
    with bags.session() as connection:
        connection.execution_options(isolation_level="REPEATABLE READ")
        with autocommit(connection):
            connection.execute(_ADD)
        assert connection.scalar(level) == "repeatable read"
