"""Capture: what every kind of statement leaves in the queue."""

import psycopg
import pytest
from psycopg import errors

import deferred
from sites import Directory
from sites.sessions.exchange import raw
from tests.fix_worlds import prepared_once
from tests.linked_table import (
    application,
    as_refresh,
    calls,
    kinds,
    link,
    queued,
    rows,
    run,
)

THREE = "INSERT INTO orders SELECT g, 'n' || g, g FROM generate_series(1, 3) g"


@prepared_once("hq", "jfk")
def orders(sites: Directory) -> None:
    """Three orders at both sites; nothing is queued."""
    link(sites)
    for site in sites.values():
        as_refresh(site, THREE)


def test_commit_records_calls_with_both_images(orders: Directory) -> None:
    run(
        orders["jfk"],
        "INSERT INTO orders (id, name) VALUES (4, 'n4')",
        "UPDATE orders SET qty = NULL WHERE id = 1",
        "DELETE FROM orders WHERE id = 2",
    )
    rest = {"price": None, "at": None}
    assert calls(orders["jfk"]) == [
        ("orders", "I", None, {"id": "4", "name": "n4", "qty": None, **rest}),
        (
            "orders",
            "U",
            {"id": "1", "name": "n1", "qty": "1", **rest},
            {"id": "1", "name": "n1", "qty": None, **rest},
        ),
        ("orders", "D", {"id": "2", "name": "n2", "qty": "2", **rest}, None),
    ]
    assert queued(orders["jfk"]) == 1


def test_rollback_records_nothing(orders: Directory) -> None:
    with application(orders["jfk"]) as user:
        user.execute("UPDATE orders SET qty = 9")
        user.rollback()
    assert calls(orders["jfk"]) == []
    assert queued(orders["jfk"]) == 0


def test_rollback_to_savepoint_records_only_the_rest(orders: Directory) -> None:
    run(
        orders["jfk"],
        "SAVEPOINT one",
        "UPDATE orders SET qty = 9 WHERE id = 1",
        "ROLLBACK TO one",
        "UPDATE orders SET qty = 9 WHERE id = 2",
    )
    assert kinds(orders["jfk"]) == [("U", "2")]
    assert queued(orders["jfk"]) == 1


def test_everything_rolled_back_to_a_savepoint_records_nothing(
    orders: Directory,
) -> None:
    run(
        orders["jfk"],
        "SAVEPOINT one",
        "UPDATE orders SET qty = 9",
        "ROLLBACK TO one",
    )
    assert kinds(orders["jfk"]) == []
    assert queued(orders["jfk"]) == 0


def test_statement_that_meets_no_row_records_nothing(orders: Directory) -> None:
    run(
        orders["jfk"],
        "UPDATE orders SET qty = 9 WHERE id = 99",
        "DELETE FROM orders WHERE id = 99",
        "INSERT INTO orders SELECT * FROM orders WHERE false",
    )
    assert queued(orders["jfk"]) == 0
    assert run(orders["jfk"], "SELECT * FROM snaptide.deferred_transaction") == []


def test_on_conflict_takes_both_branches(orders: Directory) -> None:
    run(
        orders["jfk"],
        "INSERT INTO orders (id, name) VALUES (3, 'again'), (4, 'n4')"
        " ON CONFLICT (id) DO UPDATE SET name = excluded.name",
        "INSERT INTO orders (id) VALUES (1) ON CONFLICT DO NOTHING",
    )
    assert sorted(kinds(orders["jfk"])) == [("I", "4"), ("U", "3")]
    deferred.push(orders["jfk"])
    assert rows(orders["hq"]) == rows(orders["jfk"])


def test_merge_records_all_that_it_does(orders: Directory) -> None:
    run(
        orders["jfk"],
        "MERGE INTO orders o USING (VALUES (1, 'one'), (2, NULL), (9, 'nine'))"
        " v (id, name) ON o.id = v.id"
        " WHEN MATCHED AND v.name IS NULL THEN DELETE"
        " WHEN MATCHED THEN UPDATE SET name = v.name"
        " WHEN NOT MATCHED THEN INSERT (id, name) VALUES (v.id, v.name)",
    )
    assert sorted(kinds(orders["jfk"])) == [("D", "2"), ("I", "9"), ("U", "1")]
    deferred.push(orders["jfk"])
    assert rows(orders["hq"]) == rows(orders["jfk"])


def test_copy_is_captured_as_insert(orders: Directory) -> None:
    with orders["jfk"].begin() as connection:
        cursor = raw(connection).cursor()
        with cursor.copy("COPY public.orders (id, name) FROM STDIN") as copy:
            for number in range(10, 40):
                copy.write_row((number, f"copied {number}"))
    assert kinds(orders["jfk"]) == [("I", str(number)) for number in range(10, 40)]
    deferred.push(orders["jfk"])
    assert rows(orders["hq"]) == rows(orders["jfk"])


def test_delete_and_insert_in_one_with(orders: Directory) -> None:
    run(
        orders["jfk"],
        "WITH gone AS (DELETE FROM orders WHERE id = 1 RETURNING *)"
        " INSERT INTO orders SELECT id + 10, name || '+', qty FROM gone",
    )
    assert sorted(kinds(orders["jfk"])) == [("D", "1"), ("I", "11")]
    deferred.push(orders["jfk"])
    assert rows(orders["hq"]) == rows(orders["jfk"])


def test_two_updates_in_one_with_are_both_captured(orders: Directory) -> None:
    run(
        orders["jfk"],
        "WITH one AS (UPDATE orders SET qty = 8 WHERE id = 1 RETURNING id)"
        " UPDATE orders SET qty = 9 WHERE id = 2",
    )
    assert sorted(kinds(orders["jfk"])) == [("U", "1"), ("U", "2")]


def test_replica_role_is_captured_too(orders: Directory) -> None:
    run(
        orders["jfk"],
        "SET LOCAL session_replication_role = replica",
        "UPDATE orders SET qty = 9 WHERE id = 1",
    )
    assert kinds(orders["jfk"]) == [("U", "1")]
    assert queued(orders["jfk"]) == 1
    deferred.push(orders["jfk"])
    assert rows(orders["hq"]) == rows(orders["jfk"])


def test_strings_of_old_do_not_stop_a_change(orders: Directory) -> None:
    run(orders["jfk"], "SELECT setval('snaptide.notified_at', 1)")
    run(
        orders["jfk"],
        "SET LOCAL standard_conforming_strings = off",
        "UPDATE orders SET qty = 9 WHERE id = 1",
    )
    assert kinds(orders["jfk"]) == [("U", "1")]


def test_key_change_is_one_call_with_both_keys(orders: Directory) -> None:
    run(orders["jfk"], "UPDATE orders SET id = 7 WHERE id = 1")
    [(_, kind, old, new)] = calls(orders["jfk"])
    assert (kind, old["id"], new["id"]) == ("U", "1", "7")
    deferred.push(orders["jfk"])
    assert rows(orders["hq"]) == rows(orders["jfk"])


def test_subset_snapshot_refuses_key_change(sites: Directory) -> None:
    link(
        sites,
        "parts",
        "id int PRIMARY KEY, name text, secret text",
        at_site="id int PRIMARY KEY, name text",
        refuse_new_keys=True,
    )
    run(sites["jfk"], "INSERT INTO parts VALUES (1, 'a')")
    with pytest.raises(errors.FeatureNotSupported, match="key of a row"):
        run(sites["jfk"], "UPDATE parts SET id = 2")
    run(sites["jfk"], "UPDATE parts SET name = 'b'")
    assert kinds(sites["jfk"]) == [("I", "1"), ("U", "1")]


def test_dropped_session_leaves_nothing(orders: Directory) -> None:
    user = application(orders["jfk"])
    user.execute("UPDATE orders SET qty = 9")
    pid = user.info.backend_pid
    run(orders["jfk"], f"SELECT pg_terminate_backend({pid}, 5000)")
    with pytest.raises(psycopg.OperationalError):
        user.execute("SELECT 1")
    user.close()
    assert queued(orders["jfk"]) == 0
