"""A transaction reaches the master as one change a row."""

import pytest
import sqlalchemy as sa

import deferred
from deferred.batches.net_change import net_changes
from deferred.catalog import deferred_transaction
from deferred.queues.queue import Queue, list_queues
from sites import Directory, Site
from tests.fix_worlds import prepared_once
from tests.linked_table import as_refresh, link, parked, rows, run


@prepared_once("hq", "jfk")
def orders(sites: Directory) -> None:
    """One order at both sites; nothing is queued."""
    link(sites)
    for site in sites.values():
        as_refresh(site, "INSERT INTO orders VALUES (1, 'a', 1)")


@pytest.mark.parametrize(
    ("statements", "kinds"),
    [
        (["INSERT INTO orders VALUES (2)"], ["I"]),
        (["INSERT INTO orders VALUES (2)", "UPDATE orders SET qty = 3"], ["I", "U"]),
        (["INSERT INTO orders VALUES (2)", "DELETE FROM orders WHERE id = 2"], ["N"]),
        (["UPDATE orders SET qty = 2", "UPDATE orders SET qty = 3"], ["U"]),
        (["UPDATE orders SET qty = 2", "UPDATE orders SET qty = 1"], []),
        (["UPDATE orders SET qty = 2", "DELETE FROM orders"], ["D"]),
        (["DELETE FROM orders", "INSERT INTO orders VALUES (1, 'b')"], ["R"]),
        (
            ["UPDATE orders SET id = 9", "UPDATE orders SET id = 1, qty = 5"],
            ["U"],
        ),
        (["UPDATE orders SET id = 9"], ["M"]),
        (["UPDATE orders SET id = 9", "UPDATE orders SET id = 8, qty = 2"], ["M"]),
        (["UPDATE orders SET qty = 2", "UPDATE orders SET id = 9"], ["M"]),
        (["UPDATE orders SET id = 9", "DELETE FROM orders"], ["D"]),
        (
            ["INSERT INTO orders VALUES (2)", "UPDATE orders SET id = 3 WHERE id = 2"],
            ["I"],
        ),
        (
            [
                "INSERT INTO orders VALUES (2)",
                "UPDATE orders SET id = 3 WHERE id = 2",
                "DELETE FROM orders WHERE id = 3",
            ],
            ["N"],
        ),
        (
            ["UPDATE orders SET id = 9", "INSERT INTO orders VALUES (1, 'b')"],
            ["I", "M"],
        ),
        (
            [
                "UPDATE orders SET id = 9",
                "INSERT INTO orders VALUES (1, 'b')",
                "DELETE FROM orders WHERE id = 1",
            ],
            ["M", "N"],
        ),
        (
            [
                "INSERT INTO orders VALUES (2, 'a2', 1)",
                "UPDATE orders SET id = 9 WHERE id = 1",
                "UPDATE orders SET id = 1 WHERE id = 2",
                "UPDATE orders SET id = 2 WHERE id = 9",
            ],
            ["I", "M"],
        ),
        (
            [
                "UPDATE orders SET name = 'b'",
                "UPDATE orders SET name = 'a'",
                "UPDATE orders SET name = 'b'",
            ],
            ["U"],
        ),
    ],
    ids=[
        "insert",
        "insert and update",
        "insert and delete",
        "two updates",
        "there and back",
        "update and delete",
        "delete and insert",
        "key there and back",
        "key",
        "key twice",
        "update, key",
        "key and delete",
        "insert and key",
        "insert, key and delete",
        "key, insert at the old one",
        "key, insert and delete at the old one",
        "key goes where a new row was",
        "toggle",
    ],
)
def test_kind_of_net_change(
    orders: Directory, statements: list[str], kinds: list[str]
) -> None:
    run(orders["jfk"], *statements)
    assert sorted(row.kind for row in _fold(orders["jfk"])) == kinds
    report = deferred.push(orders["jfk"])
    assert report.errors == 0
    assert rows(orders["hq"]) == rows(orders["jfk"])


def test_update_and_delete_is_a_delete_with_the_first_image(orders: Directory) -> None:
    run(orders["jfk"], "UPDATE orders SET qty = 2", "DELETE FROM orders")
    [net] = _fold(orders["jfk"])
    assert (net.kind, net.o3, net.n3) == ("D", 1, None)
    deferred.push(orders["jfk"])
    assert rows(orders["hq"]) == []


def test_toggled_value_starts_and_ends_where_it_did(orders: Directory) -> None:
    """Between a and b, there and back and there again: image counts, not numbers."""
    run(
        orders["jfk"],
        *["UPDATE orders SET name = 'b'", "UPDATE orders SET name = 'a'"] * 2,
        "UPDATE orders SET name = 'c'",
    )
    [net] = _fold(orders["jfk"])
    assert (net.kind, net.o2, net.n2) == ("U", "a", "c")


def test_row_that_came_and_went_must_be_absent_at_the_master(
    orders: Directory,
) -> None:
    as_refresh(orders["hq"], "INSERT INTO orders VALUES (2, 'theirs')")
    run(
        orders["jfk"],
        "INSERT INTO orders VALUES (2, 'mine')",
        "DELETE FROM orders WHERE id = 2",
    )
    deferred.push(orders["jfk"])
    assert [error[1:3] for error in parked(orders["hq"])] == [("conflict", "SNP-314")]
    [error] = deferred.list_errors(orders["hq"])
    [call] = deferred.show_error(orders["hq"], error.id).calls
    assert call.kind == "N"
    assert call.current is not None
    assert call.current["name"] == "theirs"


def test_partial_snapshot_keeps_what_only_the_master_has(sites: Directory) -> None:
    """Delete and insert of one key: the master's other columns stay."""
    link(
        sites,
        "parts",
        "id int PRIMARY KEY, name text, secret text",
        at_site="id int PRIMARY KEY, name text",
        refuse_new_keys=True,
    )
    as_refresh(sites["hq"], "INSERT INTO parts VALUES (1, 'a', 'kept')")
    as_refresh(sites["jfk"], "INSERT INTO parts VALUES (1, 'a')")
    run(sites["jfk"], "DELETE FROM parts", "INSERT INTO parts VALUES (1, 'b')")
    assert [row.kind for row in _fold(sites["jfk"], "parts")] == ["U"]
    deferred.push(sites["jfk"])
    assert rows(sites["hq"], "parts") == [(1, "b", "kept")]


def test_moved_key_is_updated_in_place(sites: Directory) -> None:
    """A delete and an insert that came of a key change keep the row's references."""
    link(sites, "parent", "id int PRIMARY KEY, name text")
    link(sites, "child", "id int PRIMARY KEY, parent int REFERENCES parent (id)")
    for site in sites.values():
        as_refresh(
            site,
            "INSERT INTO parent VALUES (1, 'a')",
            "INSERT INTO child VALUES (10, 1)",
        )
    run(
        sites["jfk"],
        "UPDATE child SET parent = NULL",
        "UPDATE parent SET id = 5",
        "UPDATE parent SET id = 1, name = 'b'",
        "UPDATE child SET parent = 1",
    )
    assert [row.kind for row in _fold(sites["jfk"], "parent")] == ["U"]
    assert deferred.push(sites["jfk"]).errors == 0
    assert rows(sites["hq"], "parent") == [(1, "b")]


def test_images_that_do_not_follow_from_one_another_are_parked(
    orders: Directory,
) -> None:
    """As after a change that somebody hid from the queue."""
    run(
        orders["jfk"],
        "UPDATE orders SET qty = 2",
        "ALTER TABLE orders DISABLE TRIGGER snaptide_def_update",
        "UPDATE orders SET qty = 3",
        "ALTER TABLE orders ENABLE ALWAYS TRIGGER snaptide_def_update",
        "UPDATE orders SET qty = 4",
    )
    [net] = _fold(orders["jfk"])
    assert net.kind == "X"
    assert net.n1 == 1
    run(orders["jfk"], "INSERT INTO orders VALUES (2)")
    report = deferred.push(orders["jfk"])
    assert (report.transactions, report.errors) == (2, 1)
    assert [error[1:3] for error in parked(orders["hq"])] == [("error", "SNP-110")]
    assert [row[0:3:2] for row in rows(orders["hq"])] == [(1, 1), (2, None)]


def test_columns_without_an_equality_operator(sites: Directory) -> None:
    """json and point, and numbers that are equal but not the same."""
    link(
        sites,
        "odd",
        "id int PRIMARY KEY, j json, p point, n numeric, f float8",
    )
    for site in sites.values():
        as_refresh(
            site,
            """INSERT INTO odd VALUES (1, '{"a": 1}', '(1,2)', 1.0, 'NaN')""",
        )
    run(
        sites["jfk"],
        """UPDATE odd SET j = '{"a": 2}'""",
        """UPDATE odd SET j = '{"a": 3}', p = '(3,4)'""",
    )
    run(sites["jfk"], """UPDATE odd SET j = '{"a": 4}'""", "UPDATE odd SET n = 2.5")
    assert deferred.push(sites["jfk"]).errors == 0
    assert run(sites["hq"], "SELECT odd::text FROM odd") == [
        ("""(1,"{""a"": 4}","(3,4)",2.5,NaN)""",)
    ]


def test_null_and_empty_string_are_two_values(orders: Directory) -> None:
    run(
        orders["jfk"],
        "UPDATE orders SET name = NULL",
        "UPDATE orders SET name = ''",
    )
    [net] = _fold(orders["jfk"])
    assert (net.o2, net.n2) == ("a", "")
    deferred.push(orders["jfk"])
    assert rows(orders["hq"])[0][1] == ""
    run(orders["jfk"], "UPDATE orders SET name = NULL")
    deferred.push(orders["jfk"])
    assert rows(orders["hq"])[0][1] is None


def test_each_transaction_is_folded_by_itself(orders: Directory) -> None:
    run(orders["jfk"], "UPDATE orders SET qty = 2")
    run(orders["jfk"], "UPDATE orders SET qty = 3")
    assert [(row.o3, row.n3) for row in _fold(orders["jfk"])] == [(1, 2), (2, 3)]


def _fold(site: Site, snapshot: str = "orders") -> list[sa.Row[tuple[object, ...]]]:
    """The net changes of all that is queued."""
    transactions = sa.select(
        deferred_transaction.c.xid, deferred_transaction.c.order_no
    ).subquery()
    with site.transaction() as connection:
        queue = _queue(list_queues(connection), snapshot)
        found = connection.execute(net_changes(queue, transactions)).all()
    return sorted(found, key=lambda row: row.call_no)


def _queue(queues: list[Queue], snapshot: str) -> Queue:
    return next(queue for queue in queues if queue.snapshot == snapshot)
