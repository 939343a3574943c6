"""An advisory lock that is held over several transactions of a session."""

from __future__ import annotations

from contextlib import suppress

import pytest
from sqlalchemy import Connection, func, text
from sqlalchemy.exc import OperationalError

from sites import Directory, Site
from sites.tables import locks
from tests.linked_table import run

KEY = (func.hashtext("kind"), func.hashtext("what"))


def process(connection: Connection) -> int:
    number: int = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
    connection.rollback()
    return number


def held(site: Site, process: int) -> int:
    locked = f"SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND pid = {process}"
    return len(run(site, locked))


@pytest.mark.parametrize("shared", [False, True])
def test_it_is_held_until_the_block_ends_and_no_longer(
    sites: Directory, shared: bool
) -> None:
    hq = sites["hq"]
    with hq.session() as connection:
        with locks.session_lock(connection, KEY, shared=shared):
            number = process(connection)
            assert held(hq, number) == 1
        assert held(hq, number) == 0
        with suppress(ValueError), locks.session_lock(connection, KEY, shared=shared):
            connection.execute(text("SELECT 1"))
            raise ValueError
        assert held(hq, number) == 0


@pytest.mark.parametrize("noticed", [False, True])
@pytest.mark.parametrize("begun", [False, True])
def test_a_session_that_was_ended_hides_no_error(
    sites: Directory, noticed: bool, begun: bool
) -> None:
    expected = OperationalError if noticed else ValueError
    with sites["hq"].session() as connection, pytest.raises(expected):
        _fail(sites["hq"], connection, begun=begun, noticed=noticed)


def _fail(hq: Site, connection: Connection, *, begun: bool, noticed: bool) -> None:
    with locks.session_lock(connection, KEY):
        ended = f"SELECT pg_terminate_backend({process(connection)}, 5000)"
        if begun:
            connection.execute(text("SELECT 1"))
        assert run(hq, ended) == [(True,)]
        if noticed:
            connection.execute(text("SELECT 1"))
        raise ValueError
