"""The place of a transaction in the order, taken after its last check."""

import time

import pytest

import deferred
from sites import Directory, Site
from tests.linked_table import application, as_refresh, link, parked, rows, run

PARENT = "id int PRIMARY KEY"
CHILD = (
    "id int PRIMARY KEY, parent int REFERENCES parent (id)"
    " DEFERRABLE INITIALLY DEFERRED"
)


def test_transaction_that_locks_later_comes_later(sites: Directory) -> None:
    """The first to write is the last to get the row both want."""
    link(sites)
    for site in sites.values():
        as_refresh(site, "INSERT INTO orders VALUES (1, 'a', 0), (2, 'b', 0)")
    first, second = application(sites["jfk"]), application(sites["jfk"])
    first.execute("UPDATE orders SET qty = 1 WHERE id = 1")
    second.execute("UPDATE orders SET qty = 10 WHERE id = 2")
    second.commit()
    first.execute("UPDATE orders SET qty = qty + 1 WHERE id = 2")
    first.commit()
    first.close()
    second.close()
    report = deferred.push(sites["jfk"])
    assert (report.transactions, report.errors) == (2, 0)
    assert [row[2] for row in rows(sites["hq"])] == [1, 11]


def test_child_written_before_its_parent(sites: Directory) -> None:
    """The child's transaction depends on one whose calls have higher numbers."""
    _parent_and_child(sites)
    child = application(sites["jfk"])
    child.execute("INSERT INTO child VALUES (1, 7)")
    run(sites["jfk"], "INSERT INTO parent VALUES (7)")
    child.commit()
    child.close()
    report = deferred.push(sites["jfk"])
    assert (report.transactions, report.errors) == (2, 0)
    assert rows(sites["hq"], "child") == [(1, 7)]


def test_order_is_drawn_after_all_other_deferred_checks(sites: Directory) -> None:
    _parent_and_child(sites)
    run(
        sites["jfk"],
        "CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " PERFORM nextval('snaptide.order_no'); RETURN NULL; END $$",
        "CREATE CONSTRAINT TRIGGER zz_late AFTER INSERT ON parent"
        " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION late()",
    )
    # The user's check is queued after ours was, and yet ours is the last.
    run(
        sites["jfk"],
        "INSERT INTO parent VALUES (1)",
        "INSERT INTO parent VALUES (2)",
    )
    [(order_no, last)] = run(
        sites["jfk"],
        "SELECT t.order_no, s.last_value"
        " FROM snaptide.deferred_transaction t, snaptide.order_no s",
    )
    assert order_no == last == 5


@pytest.mark.parametrize("early", [True, False])
def test_constraints_made_immediate(sites: Directory, early: bool) -> None:
    _parent_and_child(sites)
    statements = [
        "INSERT INTO parent VALUES (1)",
        "INSERT INTO child VALUES (1, 1)",
        "UPDATE child SET parent = NULL",
    ]
    statements.insert(0 if early else 2, "SET CONSTRAINTS ALL IMMEDIATE")
    run(sites["jfk"], *statements)
    assert _order(sites["jfk"]) > 0
    deferred.push(sites["jfk"])
    assert rows(sites["hq"], "child") == [(1, None)]
    assert parked(sites["hq"]) == []


def test_order_drawn_early_does_not_hide_later_calls(sites: Directory) -> None:
    """Calls after the order was drawn move the transaction behind them."""
    _parent_and_child(sites)
    early = application(sites["jfk"])
    early.execute("INSERT INTO parent VALUES (1)")
    early.execute("SET CONSTRAINTS ALL IMMEDIATE")
    run(sites["jfk"], "INSERT INTO parent VALUES (2)")
    early.execute("INSERT INTO child VALUES (1, 2)")
    early.commit()
    early.close()
    report = deferred.push(sites["jfk"])
    assert report.errors == 0
    assert rows(sites["hq"], "child") == [(1, 2)]


@pytest.mark.parametrize("trigger", [False, True])
def test_order_drawn_early_is_drawn_again(sites: Directory, trigger: bool) -> None:
    """Constraints made immediate and deferred again: the last check decides."""
    _parent_and_child(sites)
    if trigger:
        run(sites["jfk"], *CHANGES_AT_COMMIT)
    child = application(sites["jfk"])
    child.execute("INSERT INTO parent VALUES (1)")
    child.execute("SET CONSTRAINTS ALL IMMEDIATE")
    child.execute("SET CONSTRAINTS ALL DEFERRED")
    child.execute("INSERT INTO child VALUES (1, 7)")
    run(sites["jfk"], "INSERT INTO parent VALUES (7)")
    child.commit()
    child.close()
    report = deferred.push(sites["jfk"])
    assert (report.transactions, report.errors) == (2, 0)
    assert rows(sites["hq"], "child") == rows(sites["jfk"], "child")
    [(drawn, last)] = run(sites["jfk"], DRAWN)
    assert drawn == last > 0


#: A user's own trigger that changes rows among the last checks of a transaction.
CHANGES_AT_COMMIT = [
    """
    CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO child VALUES (NEW.id + 100, NEW.parent) ON CONFLICT DO NOTHING;
        RETURN NULL;
    END $$
    """,
    """
    CREATE CONSTRAINT TRIGGER zz_late AFTER INSERT ON child
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.id < 100) EXECUTE FUNCTION late()
    """,
]
DRAWN = """
SELECT max(t.order_no), s.last_value
FROM snaptide.deferred_transaction t, snaptide.order_no s GROUP BY s.last_value
"""


def test_many_transactions_send_few_notifications(sites: Directory) -> None:
    """At most one a window of 100 ms, and one at once after a quiet time."""
    link(sites)
    listener = application(sites["jfk"])
    listener.autocommit = True
    listener.execute("LISTEN snaptide_push")
    begun = time.monotonic()
    for _ in range(30):
        run(sites["jfk"], "INSERT INTO orders (id) SELECT count(*) FROM orders")
    windows = (time.monotonic() - begun) / 0.1 + 1
    received = list(listener.notifies(timeout=0.5))
    listener.close()
    assert 1 <= len(received) <= windows
    assert {note.payload for note in received} == {""}


@pytest.mark.parametrize("prepared", [False, True])
def test_statements_with_parameters_notify(sites: Directory, *, prepared: bool) -> None:
    """They commit when the server has let go of their text."""
    link(sites)
    listener = application(sites["jfk"])
    listener.autocommit = True
    listener.execute("LISTEN snaptide_push")
    with application(sites["jfk"]) as user:
        user.autocommit = True
        insert = "INSERT INTO orders (id) VALUES (%s)"
        user.execute(insert, [1], prepare=prepared)
    assert len(list(listener.notifies(timeout=120, stop_after=1))) == 1
    listener.close()


def test_rolled_back_transaction_notifies_nobody(sites: Directory) -> None:
    link(sites)
    listener = application(sites["jfk"])
    listener.autocommit = True
    listener.execute("LISTEN snaptide_push")
    with application(sites["jfk"]) as user:
        user.execute("INSERT INTO orders (id) VALUES (1)")
        user.execute("SET CONSTRAINTS ALL IMMEDIATE")
        user.rollback()
    assert list(listener.notifies(timeout=0.2)) == []
    listener.close()


def test_user_may_prepare_a_transaction(sites: Directory) -> None:
    link(sites)
    with application(sites["jfk"]) as user:
        user.execute("SET LOCAL snaptide.coordinated = prepared")
        user.execute("INSERT INTO orders (id) VALUES (1)")
        user.execute("PREPARE TRANSACTION 'of the user'")
        assert deferred.push(sites["jfk"]).transactions == 0
        user.autocommit = True
        user.execute("COMMIT PREPARED 'of the user'")
    assert deferred.push(sites["jfk"]).transactions == 1


def _parent_and_child(sites: Directory) -> None:
    link(sites, "parent", PARENT)
    link(sites, "child", CHILD)


def _order(site: Site) -> int:
    [(number,)] = run(site, "SELECT order_no FROM snaptide.deferred_transaction")
    return int(number)
