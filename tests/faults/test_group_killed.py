"""A push of groups is killed at any step: the next one ends where one would have."""

import signal

import pytest

import deferred
from sites import Directory
from tests.fix_worlds import prepared_once
from tests.linked_table import as_refresh, link, parked, queued, rows, run_each
from tests.pushing import end_push, start_push

#: Steps of a group, in their order.
STEPS = [
    "push.after_cut",
    "push.after_plan",
    "transport.before_copy",
    "push.after_group_ship",
    "push.before_apply",
    "push.after_settle",
    "write.after_park",
    "write.after_insert",
    "write.after_update",
    "push.after_apply",
    "push.before_commit",
    "push.after_commit",
    "push.before_mark",
]
#: Those that a group passes a second time when it is divided.
AGAIN = [
    "push.after_refusal",
    "push.after_group_ship",
    "push.before_apply",
    "push.after_settle",
    "push.after_apply",
    "push.after_commit",
    "push.before_ship_commit",
    "push.after_ship",
]

#: Of these, what it passes only then.
ONCE = ["push.after_refusal", "push.before_ship_commit", "push.after_ship"]


@prepared_once("hq", "jfk")
def orders(sites: Directory) -> None:
    """More than a hundred calls: inserts, a swap, updates, deletes."""
    link(sites)
    for site in sites.values():
        as_refresh(
            site,
            "INSERT INTO orders SELECT g, 'n' || g, 0 FROM generate_series(1, 9) g",
        )
    run_each(
        sites["jfk"],
        *(f"INSERT INTO orders VALUES ({n}, 'n{n}', 0)" for n in range(10, 80)),
        "UPDATE orders SET name = NULL WHERE id = 1",
        "UPDATE orders SET name = 'n1' WHERE id = 2",
        "UPDATE orders SET name = 'n2' WHERE id = 1",
        "UPDATE orders SET qty = qty + 1",
        *(f"DELETE FROM orders WHERE id = {n}" for n in (3, 4, 12, 13)),
    )


@pytest.mark.faults
@pytest.mark.parametrize("point", STEPS)
def test_killed_group_is_taken_up_again(orders: Directory, point: str) -> None:
    status, said = end_push(start_push(orders, f"{point}:kill"), orders)
    assert status == -signal.SIGKILL, said
    deferred.push(orders["jfk"])
    assert rows(orders["hq"]) == rows(orders["jfk"])
    assert parked(orders["hq"]) == []
    _assert_at_rest(orders)


@pytest.mark.faults
@pytest.mark.parametrize("point", AGAIN)
def test_killed_division_is_taken_up_again(orders: Directory, point: str) -> None:
    """A row in conflict: its transaction, and what was made on it, are left out."""
    as_refresh(orders["hq"], "UPDATE orders SET qty = 100 WHERE id = 5")
    nth = 1 if point in ONCE else 2
    status, said = end_push(start_push(orders, f"{point}:kill:{nth}"), orders)
    assert status == -signal.SIGKILL, said
    deferred.push(orders["jfk"])
    # The one that counts every row is in conflict; the deletes start from its rows.
    assert [error[1] for error in parked(orders["hq"])] == [
        "conflict",
        *["dependant"] * 4,
    ]
    assert [row[1] for row in rows(orders["hq"]) if row[0] < 3] == ["n2", "n1"]
    _assert_at_rest(orders)


def _assert_at_rest(orders: Directory) -> None:
    assert queued(orders["jfk"]) == 0
    assert deferred.push(orders["jfk"]).transactions == 0
