"""A change of a key reaches the master as a change of a key."""

from collections.abc import Callable

import pytest
from sqlalchemy import text

import deferred
import synchronous
from deferred.queues import refresh_coverage
from deferred.queues.queue import list_queues
from masters import rules
from sites import Directory
from tests.grouped import assert_masters_equal, found_group, push_all
from tests.linked_table import (
    as_refresh,
    link,
    parked,
    rows,
    run,
    run_each,
    run_everywhere,
)

PARENT = "id int PRIMARY KEY, name text UNIQUE"


def family(sites: Directory, actions: str, *, synchronous: bool = False) -> None:
    """Parents with a child that both sites know, and one that hq alone knows."""
    link(sites, "parent", PARENT, synchronous=synchronous)
    link(
        sites,
        "child",
        f"id int PRIMARY KEY, parent int REFERENCES parent (id) {actions}",
        at_site="id int PRIMARY KEY, parent int REFERENCES parent (id)"
        " ON UPDATE CASCADE ON DELETE CASCADE DEFERRABLE",
        synchronous=synchronous,
    )
    run_everywhere(
        sites,
        "INSERT INTO parent VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        "INSERT INTO child VALUES (10, 1), (20, 2)",
    )
    as_refresh(sites["hq"], "INSERT INTO child VALUES (11, 1), (21, 2)")


CASCADE = "ON UPDATE CASCADE ON DELETE CASCADE"


@pytest.mark.parametrize("most", [10_000, 1], ids=["together", "one by one"])
def test_children_that_the_site_does_not_know_come_along(
    sites: Directory, most: int
) -> None:
    family(sites, CASCADE)
    run_each(
        sites["jfk"],
        "UPDATE parent SET name = 'd' WHERE id = 3",
        "UPDATE parent SET id = 7 WHERE id = 1",
        "UPDATE parent SET id = 8, name = 'e' WHERE id = 7",
    )
    assert deferred.push(sites["jfk"], group_max_calls=most).errors == 0
    assert rows(sites["hq"], "parent") == [(2, "b"), (3, "d"), (8, "e")]
    assert rows(sites["hq"], "child") == [(10, 8), (11, 8), (20, 2), (21, 2)]


@pytest.mark.parametrize(
    ("statements", "parents", "children"),
    [
        (
            [
                "UPDATE parent SET id = 9 WHERE id = 1",
                "UPDATE parent SET id = 1 WHERE id = 2",
                "UPDATE parent SET id = 2 WHERE id = 9",
            ],
            [(1, "b"), (2, "a"), (3, "c")],
            [(10, 2), (11, 2), (20, 1), (21, 1)],
        ),
        (
            [
                "DELETE FROM parent WHERE id = 3",
                "UPDATE parent SET id = 3 WHERE id = 2",
                "UPDATE parent SET id = 2 WHERE id = 1",
            ],
            [(2, "a"), (3, "b")],
            [(10, 2), (11, 2), (20, 3), (21, 3)],
        ),
        (
            [
                "UPDATE parent SET id = 9 WHERE id = 1",
                "INSERT INTO parent VALUES (1, 'new')",
                "INSERT INTO child VALUES (30, 1), (31, 9)",
            ],
            [(1, "new"), (2, "b"), (3, "c"), (9, "a")],
            [(10, 9), (11, 9), (20, 2), (21, 2), (30, 1), (31, 9)],
        ),
        (
            [
                "INSERT INTO parent VALUES (4, 'new')",
                "UPDATE parent SET id = 5 WHERE id = 4",
                "UPDATE parent SET id = 4 WHERE id = 1",
            ],
            [(2, "b"), (3, "c"), (4, "a"), (5, "new")],
            [(10, 4), (11, 4), (20, 2), (21, 2)],
        ),
    ],
    ids=["swap", "behind a delete", "insert at the old key", "to the key of a new row"],
)
def test_keys_that_pass_from_row_to_row(
    sites: Directory,
    statements: list[str],
    parents: list[object],
    children: list[object],
) -> None:
    """The master's key is checked at once, and each child goes with its parent."""
    family(sites, CASCADE)
    run(sites["jfk"], *statements)
    assert deferred.push(sites["jfk"]).errors == 0
    assert rows(sites["hq"], "parent") == parents
    assert rows(sites["hq"], "child") == children


def test_children_moved_by_hand_where_no_foreign_key_follows(sites: Directory) -> None:
    family(sites, "ON DELETE CASCADE")
    as_refresh(sites["hq"], "DELETE FROM child WHERE id IN (11, 21)")
    by_hand = [
        "UPDATE child SET parent = NULL WHERE id = 10",
        "UPDATE parent SET id = 7 WHERE id = 1",
        "UPDATE child SET parent = 7 WHERE id = 10",
    ]
    run(sites["jfk"], *by_hand)
    assert deferred.push(sites["jfk"]).errors == 0
    assert rows(sites["hq"], "parent") == [(2, "b"), (3, "c"), (7, "a")]
    assert rows(sites["hq"], "child") == [(10, 7), (20, 2)]


def test_no_child_goes_with_the_old_key(sites: Directory) -> None:
    """It would be deleted with a row that is only called something else now."""
    family(sites, "ON DELETE CASCADE")
    run(sites["jfk"], "UPDATE parent SET id = 7 WHERE id = 1")
    assert deferred.push(sites["jfk"]).errors == 1
    assert rows(sites["hq"], "child") == [(10, 1), (11, 1), (20, 2), (21, 2)]
    run(sites["hq"], "DELETE FROM child WHERE id = 11")
    [error] = deferred.list_errors(sites["hq"])
    deferred.retry_errors(sites["hq"], [error.id])
    assert rows(sites["hq"], "parent") == [(2, "b"), (3, "c"), (7, "a")]
    assert rows(sites["hq"], "child") == [(10, 7), (20, 2), (21, 2)]


@pytest.fixture
def orders(sites: Directory) -> Directory:
    """Two orders at both sites; nothing is queued."""
    link(sites)
    run_everywhere(sites, "INSERT INTO orders VALUES (1, 'a', 1), (2, 'b', 2)")
    return sites


def shown(sites: Directory, name: str = "hq") -> list[tuple[object, ...]]:
    return [row[:3] for row in rows(sites[name])]


@pytest.mark.parametrize("method", ["restore", "ignore"])
def test_rules_for_deletes_see_no_half_of_it(orders: Directory, method: str) -> None:
    rules.add_delete_resolution(orders["hq"], "orders", method)
    as_refresh(orders["hq"], "UPDATE orders SET qty = 9 WHERE id = 1")
    run(orders["jfk"], "UPDATE orders SET id = 7 WHERE id = 1")
    assert deferred.push(orders["jfk"]).errors == 0
    assert shown(orders) == [(1, "a", 9), (2, "b", 2)]


@pytest.mark.parametrize("most", [10_000, 0], ids=["together", "one by one"])
def test_another_row_that_has_the_key_by_now(orders: Directory, most: int) -> None:
    """By its key alone the wrong order would be renamed, and nobody would be told."""
    as_refresh(
        orders["hq"],
        "DELETE FROM orders WHERE id = 1",
        "INSERT INTO orders VALUES (1, 'theirs', 1)",
    )
    run(orders["jfk"], "UPDATE orders SET id = 7 WHERE id = 1")
    assert deferred.push(orders["jfk"], group_max_calls=most).errors == 1
    assert shown(orders) == [(1, "theirs", 1), (2, "b", 2)]
    [error] = deferred.list_errors(orders["hq"])
    assert error.reason == "conflict"
    [call] = deferred.show_error(orders["hq"], error.id).calls
    assert "the row differs" in str(call.conflict)


def test_site_wins_with_its_key_and_no_other_column(orders: Directory) -> None:
    rules.add_delete_resolution(orders["hq"], "orders", "informix_always")
    as_refresh(orders["hq"], "UPDATE orders SET qty = 9 WHERE id = 1")
    run(orders["jfk"], "UPDATE orders SET id = 7 WHERE id = 1")
    assert deferred.push(orders["jfk"]).conflicts_resolved == 1
    assert shown(orders) == [(2, "b", 2), (7, "a", 9)]


def test_columns_that_it_changes_are_compared_as_at_an_update(
    orders: Directory,
) -> None:
    as_refresh(orders["hq"], "UPDATE orders SET qty = 9 WHERE id = 1")
    run(orders["jfk"], "UPDATE orders SET id = 7, qty = 5 WHERE id = 1")
    assert deferred.push(orders["jfk"]).errors == 1
    assert shown(orders) == [(1, "a", 9), (2, "b", 2)]
    [error] = deferred.list_errors(orders["hq"])
    [call] = deferred.show_error(orders["hq"], error.id).calls
    assert (call.kind, call.old["id"], call.new["id"]) == ("M", "1", "7")  # type: ignore[index]
    rules.set_column_group(orders["hq"], "orders", "qty", ["qty"])
    rules.add_update_resolution(orders["hq"], "orders", "qty", "overwrite")
    deferred.retry_errors(orders["hq"], [error.id])
    assert shown(orders) == [(2, "b", 2), (7, "a", 5)]


def test_row_that_is_gone(orders: Directory) -> None:
    as_refresh(orders["hq"], "DELETE FROM orders WHERE id = 1")
    as_refresh(orders["hq"], "INSERT INTO orders VALUES (7, 'theirs', 7)")
    run_each(
        orders["jfk"],
        "UPDATE orders SET id = 7 WHERE id = 1",
        "UPDATE orders SET qty = 5 WHERE id = 7",
    )
    assert deferred.push(orders["jfk"]).errors == 2
    [first, second] = deferred.list_errors(orders["hq"])
    assert (first.reason, second.reason) == ("conflict", "dependant")
    edit = deferred.Edit.parse("orders.id=8")
    deferred.retry_errors(orders["hq"], [first.id], edits=[edit])
    assert shown(orders) == [(2, "b", 2), (7, "theirs", 7), (8, "a", 1)]


def test_new_key_that_is_taken(orders: Directory) -> None:
    as_refresh(orders["hq"], "INSERT INTO orders VALUES (7, 'theirs', 7)")
    run(orders["jfk"], "UPDATE orders SET id = 7 WHERE id = 1")
    assert deferred.push(orders["jfk"]).errors == 1
    assert [error[1:3] for error in parked(orders["hq"])] == [("conflict", "SNP-314")]
    rules.add_unique_resolution(orders["hq"], "orders", "orders_pkey", "discard")
    [error] = deferred.list_errors(orders["hq"])
    deferred.retry_errors(orders["hq"], [error.id])
    assert shown(orders) == [(1, "a", 1), (2, "b", 2), (7, "theirs", 7)]


def test_both_keys_are_pending(orders: Directory) -> None:
    """A refresh must look at both, and may overwrite neither."""
    run(orders["jfk"], "UPDATE orders SET id = 7 WHERE id = 1")
    with orders["jfk"].transaction() as connection:
        [queue] = list_queues(connection)
        found = connection.execute(refresh_coverage.pending_keys(queue, 0, 0)).all()
    assert sorted(key for (key,) in found) == [1, 7]


def test_calls_of_an_older_version(orders: Directory) -> None:
    """A delete and an insert that moved, as they were queued before."""
    run(orders["jfk"], "UPDATE orders SET id = 7 WHERE id = 1")
    run(
        orders["jfk"],
        'INSERT INTO snaptide."def$_orders" (call_no, xid, kind, moved, n1, n2, n3)'
        " SELECT nextval('snaptide.order_no'), xid, 'I', true, n1, n2, n3"
        ' FROM snaptide."def$_orders"',
        "UPDATE snaptide.\"def$_orders\" SET kind = 'D', n1 = NULL, n2 = NULL,"
        " n3 = NULL WHERE kind = 'U'",
        "UPDATE snaptide.deferred_transaction SET order_no = NULL",
    )
    assert deferred.push(orders["jfk"]).errors == 0
    assert shown(orders) == [(2, "b", 2), (7, "a", 1)]


def test_history_follows_the_row(orders: Directory) -> None:
    run(orders["jfk"], "UPDATE orders SET id = 7 WHERE id = 1")
    run(orders["jfk"], "UPDATE orders SET qty = 5 WHERE id = 7")
    deferred.push(orders["jfk"])
    history = deferred.history(orders.values(), "orders", ["7"])
    assert history.keys == (("1",), ("7",))
    made = [one.operation for one in history.events if one.kind == "change"]
    assert made == ["update", "update"]


def test_synchronous_change_of_a_key(sites: Directory) -> None:
    family(sites, CASCADE, synchronous=True)
    with synchronous.begin(sites["jfk"]) as connection:
        connection.execute(text("UPDATE public.parent SET id = 7 WHERE id = 1"))
        connection.execute(text("UPDATE public.parent SET id = 8 WHERE id = 7"))
    assert rows(sites["hq"], "parent") == [(2, "b"), (3, "c"), (8, "a")]
    assert rows(sites["hq"], "child") == [(10, 8), (11, 8), (20, 2), (21, 2)]
    kept = run(
        sites["jfk"], 'SELECT DISTINCT k1 FROM snaptide."extra$_parent" ORDER BY k1'
    )
    assert kept == [(1,), (7,), (8,)]


def test_masters_of_a_group(make_sites: Callable[..., Directory]) -> None:
    sites = make_sites("hq", "lax", "bos")
    found_group(sites, "hq", "lax", "bos", via={"bos": "lax"})
    run(sites["hq"], "INSERT INTO orders (id) SELECT generate_series(1, 3)")
    push_all(sites)
    for name in ("lax", "bos"):
        rules.add_delete_resolution(sites[name], "orders", "ignore")
    run_each(
        sites["hq"],
        "UPDATE orders SET id = 20, name = 'x' WHERE id = 1",
        "UPDATE orders SET id = 1 WHERE id = 2",
    )
    push_all(sites)
    found = assert_masters_equal(sites, "hq", "lax", "bos")
    assert [row[0] for row in found] == [1, 20, 3]
