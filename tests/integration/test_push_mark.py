"""The delivered mark of a pusher that died before it could set it."""

import pytest

import deferred
from sites import Directory
from tests.fix_moments import Moments
from tests.linked_table import link, queued, rows, run


def test_the_next_push_marks_what_a_dead_one_delivered(
    sites: Directory, moments: Moments
) -> None:
    link(sites)
    run(sites["jfk"], "INSERT INTO orders VALUES (1, 'a', 1)")
    moments.at("push.before_mark", _die)
    with pytest.raises(KeyboardInterrupt):
        deferred.push(sites["jfk"])
    assert rows(sites["hq"]) == rows(sites["jfk"])
    assert queued(sites["jfk"]) == 1
    # There is nothing to push, but something to say.
    assert deferred.push(sites["jfk"]).transactions == 0
    assert queued(sites["jfk"]) == 0


def test_also_where_the_last_of_them_is_gone(
    sites: Directory, moments: Moments
) -> None:
    link(sites)
    for number in (1, 2):
        run(sites["jfk"], f"INSERT INTO orders VALUES ({number}, '{number}', 1)")
    moments.at("push.before_mark", _die)
    with pytest.raises(KeyboardInterrupt):
        deferred.push(sites["jfk"])
    run(
        sites["jfk"],
        "DELETE FROM snaptide.delivery_row"
        " WHERE order_no = (SELECT max(order_no) FROM snaptide.delivery)",
    )
    run(sites["jfk"], "INSERT INTO orders VALUES (3, '3', 1)")
    deferred.push(sites["jfk"])
    left = (
        "SELECT FROM snaptide.delivery d WHERE NOT EXISTS (SELECT FROM snaptide.batch b"
        " WHERE b.number = d.batch AND b.answered >= d.order_no)"
    )
    assert run(sites["jfk"], left) == []


def test_one_row_says_what_was_delivered(sites: Directory, moments: Moments) -> None:
    """However many transactions a batch has, none of their rows is written again."""
    jfk = sites["jfk"]
    link(sites)
    for number in range(1, 6):
        run(jfk, f"INSERT INTO orders VALUES ({number}, '{number}', 1)")
    moments.at("push.before_mark", _die)
    with pytest.raises(KeyboardInterrupt):
        deferred.push(jfk)
    each = "SELECT ctid::text, xmin::text, order_no FROM snaptide.delivery_row"
    cut = run(jfk, each)
    assert (len(cut), queued(jfk)) == (5, 5)
    deferred.push(jfk)
    assert run(jfk, each) == cut
    assert queued(jfk) == 0


def _die() -> None:
    raise KeyboardInterrupt
