"""A push is killed at any point: the next one ends where one push would have."""

import signal

import pytest

import deferred
from masters.apply import at_once
from sites import Directory, Site
from tests.fix_worlds import prepared_once
from tests.linked_table import as_refresh, link, parked, queued, rows, run
from tests.pushing import end_push, start_push

ONCE = ["push.after_cut", "push.after_ship", "push.before_mark"]
EACH_TRANSACTION = ["push.before_apply", "push.after_apply", "push.after_commit"]
POINTS = [*((point, 1) for point in (*ONCE, *EACH_TRANSACTION))]
POINTS += [(point, 3) for point in EACH_TRANSACTION]

ONE_BY_ONE = [
    "INSERT INTO orders VALUES (3, 'n3', 1)",
    "UPDATE orders SET qty = qty + 1 WHERE id = 1",
    "UPDATE orders SET qty = qty + 1 WHERE id = 2",  # in conflict
    "UPDATE orders SET qty = qty + 1",
    "UPDATE orders SET qty = qty + 1 WHERE id IN (1, 3)",
    "DELETE FROM orders WHERE id = 3",
]


@prepared_once("hq", "jfk")
def orders(sites: Directory) -> None:
    """Six transactions are queued, one of them in conflict, one depending on it."""
    link(sites)
    link(sites, "counts", "id int PRIMARY KEY, v int")
    for site in sites.values():
        as_refresh(
            site,
            "INSERT INTO orders VALUES (1, 'n1', 0), (2, 'n2', 0)",
            "INSERT INTO counts VALUES (1, 0)",
        )
    as_refresh(sites["hq"], "UPDATE orders SET qty = 100 WHERE id = 2")
    for statement in ONE_BY_ONE:
        run(sites["jfk"], statement, "UPDATE counts SET v = v + 1")


@pytest.mark.faults
@pytest.mark.parametrize(("point", "nth"), POINTS)
def test_killed_push_is_taken_up_again(orders: Directory, point: str, nth: int) -> None:
    status, _ = end_push(start_push(orders, f"{point}:kill:{nth}"), orders)
    assert status == -signal.SIGKILL
    deferred.push(orders["jfk"])
    _assert_delivered_once(orders)


@pytest.mark.faults
@pytest.mark.parametrize("point", ["push.before_at_once", "push.after_at_once"])
def test_killed_while_many_rows_are_written_at_once(
    sites: Directory, point: str
) -> None:
    link(sites, "counts", "id int PRIMARY KEY, v int")
    for site in sites.values():
        as_refresh(
            site,
            f"INSERT INTO counts SELECT g, 0 FROM generate_series(1, {at_once.MANY}) g",
        )
    run(sites["jfk"], "UPDATE counts SET v = v + 1")
    status, _ = end_push(start_push(sites, f"{point}:kill"), sites)
    assert status == -signal.SIGKILL
    assert run(sites["hq"], "SELECT DISTINCT v FROM counts") == [(0,)]
    assert deferred.push(sites["jfk"]).transactions == 1
    assert run(sites["hq"], "SELECT DISTINCT v FROM counts") == [(1,)]


@pytest.mark.faults
def test_push_killed_again_and_again(orders: Directory) -> None:
    for point in EACH_TRANSACTION:
        end_push(start_push(orders, f"{point}:kill"), orders)
    deferred.push(orders["jfk"])
    _assert_delivered_once(orders)


@pytest.mark.faults
def test_two_processes_push_at_once(orders: Directory) -> None:
    """One of them does the work; the other ends, or finds nothing to do."""
    both = [start_push(orders), start_push(orders)]
    ended = [end_push(process, orders) for process in both]
    assert [status for status, _ in ended] == [0, 0], ended
    deferred.push(orders["jfk"])
    _assert_delivered_once(orders)


def _assert_delivered_once(orders: Directory) -> None:
    hq, jfk = orders["hq"], orders["jfk"]
    # The third is in conflict; what was made on it, on a row or on the count, waits.
    assert [(error[1], error[3]) for error in parked(hq)] == [
        ("conflict", []),
        ("dependant", [_id(hq, 0)]),
        ("dependant", [_id(hq, 0), _id(hq, 1)]),
        ("dependant", [_id(hq, 0), _id(hq, 1), _id(hq, 2)]),
    ]
    assert [row[:3] for row in rows(hq)] == [(1, "n1", 1), (2, "n2", 100), (3, "n3", 1)]
    assert rows(hq, "counts") == [(1, 2)]
    assert queued(jfk) == 0
    assert deferred.push(jfk).transactions == 0


def _id(hq: Site, place: int) -> int:
    return int(parked(hq)[place][0])
