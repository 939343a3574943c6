"""Threads that commit in order: who may go, who waits, and what stops them."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as finish

import pytest

from deferred.pushing.stream import CommitOrder

#: Seconds within which a thread that may go on does, also on a busy machine.
SOON = 20.0


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch) -> CommitOrder:
    """Three places that may be committed; nobody loses patience in these tests."""
    monkeypatch.setattr("deferred.pushing.stream.PATIENCE", 3 * SOON)
    made = CommitOrder()
    made.open(until=3)
    return made


@pytest.fixture
def pool(order: CommitOrder) -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(max_workers=3) as threads:
        yield threads
        order.halt(0)  # what still waits would keep the pool from closing


def waits(one: Future[bool]) -> bool:
    return not finish([one], timeout=0.05).done


def test_places_come_one_after_the_other(
    order: CommitOrder, pool: ThreadPoolExecutor
) -> None:
    second, third = pool.submit(order.take, 1), pool.submit(order.take, 2)
    assert order.take(0)
    assert waits(second)
    order.pass_on()
    assert second.result(SOON)
    assert waits(third)
    order.pass_on()
    assert third.result(SOON)
    assert order.done == 2


def test_no_place_is_taken_beyond_the_last_that_is_open(order: CommitOrder) -> None:
    for _ in range(3):
        order.pass_on()
    assert not order.take(3)
    order.open(until=4)
    assert order.take(3)


def test_halt_stops_its_place_and_all_after_it(
    order: CommitOrder, pool: ThreadPoolExecutor
) -> None:
    second, third = pool.submit(order.take, 1), pool.submit(order.take, 2)
    assert waits(third)
    order.halt(1)
    assert not second.result(SOON)
    assert not third.result(SOON)
    assert order.take(0)
    order.halt(2)
    assert not order.reached(1, -1), "a later halt takes an earlier one back"


def test_a_turn_that_does_not_come_is_a_halt_there(
    order: CommitOrder, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waits for a later place would wait for one that has given up."""
    later = pool.submit(order.reached, 2, 1)
    assert waits(later)
    monkeypatch.setattr("deferred.pushing.stream.PATIENCE", 0.01)
    assert not pool.submit(order.take, 1).result(SOON)
    assert not later.result(SOON)
    assert order.take(0), "places before it are not stopped"
    order.pass_on()
    assert not order.take(1), "it has been rolled back"


def test_whoever_has_its_turn_is_not_halted_by_waiting(
    order: CommitOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deferred.pushing.stream.PATIENCE", 0.0)
    assert order.take(0)
    order.pass_on()
    assert order.take(1)


def test_work_begins_when_what_it_waits_for_is_committed(
    order: CommitOrder, pool: ThreadPoolExecutor
) -> None:
    assert order.reached(2, -1), "it waits for none"
    third = pool.submit(order.reached, 2, 0)
    assert waits(third)
    order.pass_on()
    assert third.result(SOON)
    order.halt(2)
    assert not order.reached(2, 0)
