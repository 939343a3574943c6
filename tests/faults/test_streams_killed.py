"""A push of several streams is killed at any step: the next ends as one would have."""

import signal
from typing import Any

import pytest

import deferred
from sites import Directory
from tests.fix_worlds import prepared_once
from tests.linked_table import as_refresh, link, parked, queued, rows, run, run_each
from tests.pushing import end_push, start_push

#: How streams are killed: calls in a group, at which point, and which time that it is
#: reached.
STEPS = [
    (1, "stream.after_ship:kill:2"),
    (1, "stream.before_apply:kill:3"),
    (1, "stream.after_refusal:kill"),
    (1, "stream.after_apply:kill:2"),
    (1, "stream.before_commit:kill:2"),
    (1, "stream.after_commit:kill:3"),
    (4, "stream.after_ship:kill:2"),
    (4, "stream.after_apply:kill:2"),
]


@prepared_once("hq", "jfk")
def orders(sites: Directory) -> None:
    """Rows that are counted up by themselves, one of them in conflict."""
    link(sites)
    for site in sites.values():
        as_refresh(
            site, "INSERT INTO orders SELECT g, NULL, 0 FROM generate_series(1, 8) g"
        )
    run_each(
        sites["jfk"],
        *(
            f"UPDATE orders SET qty = qty + 1 WHERE id = {n}"
            for _ in range(3)
            for n in range(1, 9)
        ),
    )
    as_refresh(sites["hq"], "UPDATE orders SET qty = 100 WHERE id = 6")


@pytest.mark.faults
@pytest.mark.parametrize(("calls", "fault"), STEPS)
def test_killed_streams_are_taken_up_again(
    orders: Directory, calls: int, fault: str
) -> None:
    options: dict[str, Any] = {"parallelism": 2, "group_max_calls": calls}
    status, said = end_push(start_push(orders, fault, **options), orders)
    assert status == -signal.SIGKILL, said
    deferred.push(orders["jfk"], **options)
    assert [row[2] for row in rows(orders["hq"])] == [3, 3, 3, 3, 3, 100, 3, 3]
    assert [error[1] for error in parked(orders["hq"])] == [
        "conflict",
        "dependant",
        "dependant",
    ]
    # Each change once: beside the rows' own eight, and the one at the master.
    if calls == 1:
        logged = run(orders["hq"], 'SELECT count(*) FROM snaptide."mlog$_orders"')
        assert logged == [(8 + 1 + 21,)]
    assert queued(orders["jfk"]) == 0
    assert deferred.push(orders["jfk"]).transactions == 0
