"""A queue is dropped with calls in it: nothing of them stays, and pushes go on."""

from datetime import timedelta

import pytest

import deferred
import deferred.errors
from deferred.queues import define, queue
from deferred.queues.backlog import waiting_destinations
from sites import Directory, Site
from tests.fix_moments import Moments
from tests.fix_worlds import prepared_once
from tests.linked_table import link, rows, run


class Stopped(Exception):
    """The pusher died here."""


def _stop() -> None:
    raise Stopped


@prepared_once("hq", "jfk")
def queues(sites: Directory) -> None:
    """Two queues, and transactions with calls in one or both."""
    for table in ("orders", "counts"):
        link(sites, table, "id int PRIMARY KEY, n int")
    jfk = sites["jfk"]
    run(jfk, "INSERT INTO orders VALUES (1, 1)")
    run(jfk, "INSERT INTO orders VALUES (2, 2)", "INSERT INTO counts VALUES (2, 2)")
    run(jfk, "INSERT INTO counts VALUES (3, 3)")


#: How far a push came before: nowhere, a batch was cut, the first was delivered.
MOMENTS = [None, "push.after_cut", "push.after_commit"]


@pytest.mark.parametrize("moment", MOMENTS)
def test_one_of_two(queues: Directory, moments: Moments, moment: str | None) -> None:
    hq, jfk = queues["hq"], queues["jfk"]
    _push_until(jfk, moments, moment)
    _drop(jfk, "orders")
    deferred.push(jfk)
    assert rows(hq, "counts") == [(2, 2), (3, 3)]
    _assert_nothing_left(jfk)


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_last_one(queues: Directory, moments: Moments, moment: str | None) -> None:
    """The listener asks for a push as long as a batch is open, and it ends that."""
    jfk = queues["jfk"]
    _push_until(jfk, moments, moment)
    for name in ("orders", "counts"):
        _drop(jfk, name)
    while _waiting(jfk):
        deferred.push(jfk)
    _assert_nothing_left(jfk)


@pytest.mark.parametrize("moment", MOMENTS)
def test_made_anew(queues: Directory, moments: Moments, moment: str | None) -> None:
    """A snapshot that comes back goes on where the destination stands."""
    hq, jfk = queues["hq"], queues["jfk"]
    _push_until(jfk, moments, moment)
    _drop(jfk, "orders")
    run(jfk, "DROP TABLE orders")
    run(hq, "DROP TABLE orders CASCADE")
    link(queues, "orders2", "id int PRIMARY KEY, n int")
    run(jfk, "INSERT INTO orders2 VALUES (7, 7)")
    deferred.push(jfk)
    assert rows(hq, "orders2") == [(7, 7)]
    assert rows(hq, "counts") == [(2, 2), (3, 3)]


@pytest.mark.parametrize("moment", ["push.after_cut", "push.after_ship"])
def test_in_the_middle_of_a_push(
    queues: Directory, moments: Moments, moment: str
) -> None:
    hq, jfk = queues["hq"], queues["jfk"]
    moments.at(moment, lambda: _drop(jfk, "orders"))
    try:
        deferred.push(jfk)
    except deferred.errors.PushInterrupted:
        deferred.push(jfk)
    assert rows(hq, "counts") == [(2, 2), (3, 3)]
    _assert_nothing_left(jfk)


def _push_until(jfk: Site, moments: Moments, moment: str | None) -> None:
    if moment is not None:
        moments.at(moment, _stop)
        with pytest.raises(Stopped):
            deferred.push(jfk)


def _drop(jfk: Site, name: str) -> None:
    with jfk.transaction() as connection:
        assert queue.find_queue(connection, name) is not None
        define.drop_queue(connection, name, force=True)


def _waiting(jfk: Site) -> list[str]:
    with jfk.transaction() as connection:
        return list(waiting_destinations(connection))


def _assert_nothing_left(jfk: Site) -> None:
    assert deferred.push(jfk).transactions == 0
    deferred.purge(jfk, retention=timedelta(0), fold_after=timedelta(0))
    for table in ("deferred_transaction", "delivery"):
        assert rows(jfk, f"snaptide.{table}") == [], table
