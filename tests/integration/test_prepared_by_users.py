"""Users prepare transactions of their own on tables whose changes are queued."""

import pytest

import deferred
from sites import Directory, Site
from tests.fix_worlds import prepared_once
from tests.grouped import assert_masters_equal, found_group, push_all
from tests.linked_table import application, rows, run


@prepared_once("hq", "lax", "jfk")
def masters(sites: Directory) -> None:
    """A group of two masters."""
    found_group(sites, "hq", "lax")


#: As programs send it: alone, in other letters, behind what it prepares, or commented.
ENDS = (
    ["PREPARE TRANSACTION 'theirs'"],
    ["  prepare\n transaction 'theirs'"],
    ["UPDATE orders SET qty = 3; PREPARE TRANSACTION 'theirs'"],
    ["PREPARE/* of /* the */ bank */TRANSACTION/**/'theirs'"],
    ["prepare -- of the bank\n\t--\ntransaction 'theirs'"],
)
IDS = ["alone", "small", "behind", "comment", "line"]


@pytest.mark.parametrize("ends", ENDS, ids=IDS)
def test_prepared_transaction_is_pushed_once_it_is_committed(
    masters: Directory, ends: list[str]
) -> None:
    hq = masters["hq"]
    _forget_last_notice(hq)
    with application(hq) as session:
        session.autocommit = True
        session.execute("BEGIN")
        session.execute("INSERT INTO orders (id, qty) VALUES (1, 3)")
        for statement in ends:
            session.execute(statement)
        assert push_all(masters) == 0
        run(hq, "INSERT INTO orders (id) VALUES (2)")
        assert push_all(masters) == 1
        session.execute("COMMIT PREPARED 'theirs'")
    assert push_all(masters) == 1
    assert [row[0] for row in assert_masters_equal(masters, "hq", "lax")] == [1, 2]


def test_one_that_is_rolled_back_leaves_nothing(masters: Directory) -> None:
    hq = masters["hq"]
    _forget_last_notice(hq)
    with application(hq) as session:
        session.autocommit = True
        session.execute("BEGIN")
        session.execute("INSERT INTO orders (id) VALUES (1)")
        session.execute("PREPARE TRANSACTION 'theirs'")
        session.execute("ROLLBACK PREPARED 'theirs'")
    assert deferred.push(hq).transactions == 0
    assert rows(hq) == []


def _forget_last_notice(site: Site) -> None:
    """Else a pusher who was woken just now is not woken again."""
    run(site, "SELECT setval('snaptide.notified_at', 1)")
