"""A push waits for users at the master; users do not wait for a push."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
from psycopg import errors

import deferred
from deferred.errors import PushInterrupted
from deferred.pushing import batch_by_batch
from sites import Directory, Site
from tests.linked_table import link, rows, run

WAITING = "SELECT FROM pg_locks WHERE NOT granted AND pid <> pg_backend_pid()"


@pytest.fixture
def linked(sites: Directory) -> Directory:
    """Rows 1 and 5 at both sites, changed at jfk."""
    link(sites)
    run(sites["jfk"], "INSERT INTO orders (id, qty) VALUES (1, 0), (5, 0)")
    deferred.push(sites["jfk"])
    run(sites["jfk"], "UPDATE orders SET qty = 1")
    return sites


@contextmanager
def user_at(site: Site) -> Iterator[psycopg.Connection]:
    """A user's own connection."""
    with psycopg.connect(site.libpq_uri()) as connection:
        connection.execute("SET search_path = public")
        yield connection


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A push comes again for longer than a user takes on any machine."""
    monkeypatch.setattr(batch_by_batch, "PAUSES", (0.1,) * 900)


@contextmanager
def pushing(sites: Directory) -> Iterator[Future[deferred.PushReport]]:
    """A push that runs beside the block, and waits for a row already."""
    with ThreadPoolExecutor(1) as pool, user_at(sites["hq"]) as watcher:
        future = pool.submit(deferred.push, sites["jfk"])
        while not watcher.execute(WAITING).fetchall():
            watcher.rollback()
        yield future


@pytest.mark.usefixtures("patient")
def test_a_user_is_not_the_one_who_gives_way(linked: Directory) -> None:
    with user_at(linked["hq"]) as user:
        user.execute("SET deadlock_timeout = '90s'")
        user.execute("UPDATE orders SET name = 'mine' WHERE id = 5")
        with pushing(linked) as pushed:
            # The push holds row 1 and waits for row 5.
            user.execute("UPDATE orders SET name = 'too' WHERE id = 1")
            user.commit()
    # The user came first: what was pushed is a conflict by now.
    assert pushed.result().errors == 1
    assert run(linked["hq"], "SELECT id, name FROM orders ORDER BY id") == [
        (1, "too"),
        (5, "mine"),
    ]


@pytest.mark.usefixtures("patient")
def test_others_do_not_wait_for_a_user_through_a_push(linked: Directory) -> None:
    with user_at(linked["hq"]) as user, user_at(linked["hq"]) as other:
        user.execute("UPDATE orders SET name = 'mine' WHERE id = 5")
        with pushing(linked) as pushed:
            other.execute("SET lock_timeout = '60s'")
            other.execute("UPDATE orders SET name = 'other' WHERE id = 1")
            other.commit()
            user.rollback()
    assert pushed.result().transactions == 1


@pytest.mark.usefixtures("impatient")
def test_a_push_ends_when_a_user_keeps_a_row(linked: Directory) -> None:
    with user_at(linked["hq"]) as user:
        user.execute("UPDATE orders SET name = 'mine' WHERE id = 5")
        with pytest.raises(PushInterrupted) as caught:
            deferred.push(linked["jfk"])
        assert caught.value.facts["sqlstate"] == errors.LockNotAvailable.sqlstate
        user.rollback()
    assert deferred.push(linked["jfk"]).transactions == 1
    assert rows(linked["hq"]) == rows(linked["jfk"])
