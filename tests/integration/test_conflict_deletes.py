"""Delete conflicts at the master: dropped, restored, or won by the site."""

from collections.abc import Iterator

import pytest

import deferred
from masters import rules
from masters.resolution import Conflict, Decision, Resolution, routines
from sites import Directory, Site
from tests.fix_worlds import prepared_once
from tests.linked_table import as_refresh, link, parked, rows, run

LOG = 'SELECT kind::text, k1 FROM snaptide."mlog$_orders" ORDER BY xid, k1'

UPDATE = "UPDATE orders SET qty = 15 WHERE id = 1"
DELETE = "DELETE FROM orders WHERE id = 1"
AGAIN = "INSERT INTO orders VALUES (1, 'again', 3)"


@prepared_once("hq", "jfk")
def orders(sites: Directory) -> None:
    """Two orders at both sites; nothing is queued."""
    link(sites)
    for site in sites.values():
        as_refresh(
            site,
            "INSERT INTO orders SELECT g, 'n' || g, 10 FROM generate_series(1, 2) g",
        )


@pytest.fixture
def decide() -> Iterator[None]:
    """Routines that always give one decision, named after it."""
    for decision in Decision:

        def always(conflict: Conflict, decision: Decision = decision) -> Resolution:
            return Resolution(decision=decision, reason="always")

        routines.register(decision.name, always)
    yield
    for decision in Decision:
        routines.REGISTRY.forget(decision.name)


def settle(orders: Directory, there: str, *here: str) -> None:
    run(orders["hq"], there)
    run(orders["hq"], 'DELETE FROM snaptide."mlog$_orders"')
    run(orders["jfk"], *here)
    deferred.push(orders["jfk"])


def first(site: Site) -> tuple[object, ...] | None:
    return next((row[1:3] for row in rows(site) if row[0] == 1), None)


CHANGED = "UPDATE orders SET qty = 27 WHERE id = 1"


@pytest.mark.parametrize(
    ("decision", "there", "here", "row", "logged"),
    [
        ("SITE_WINS", CHANGED, (DELETE,), None, [("D", 1)]),
        ("SITE_WINS_ORIGIN_CHANGED", CHANGED, (DELETE,), None, [("D", 1)]),
        ("SITE_WINS", DELETE, (DELETE,), None, []),
        ("IGNORE", CHANGED, (DELETE,), ("n1", 27), []),
        ("IGNORE", DELETE, (DELETE,), None, []),
        ("MASTER_WINS", CHANGED, (DELETE,), ("n1", 27), [("U", 1)]),
        ("MASTER_WINS", DELETE, (DELETE,), None, [("U", 1)]),
        ("SITE_WINS", DELETE, (UPDATE,), ("n1", 15), [("I", 1)]),
        ("IGNORE", DELETE, (UPDATE,), None, []),
        ("MASTER_WINS", DELETE, (UPDATE,), None, [("U", 1)]),
        ("SITE_WINS", CHANGED, (DELETE, AGAIN), ("again", 3), None),
        ("SITE_WINS", DELETE, (DELETE, AGAIN), ("again", 3), [("I", 1)]),
        ("IGNORE", CHANGED, (DELETE, AGAIN), ("n1", 27), []),
        ("MASTER_WINS", CHANGED, (DELETE, AGAIN), ("n1", 27), [("U", 1)]),
        ("MASTER_WINS", DELETE, (DELETE, AGAIN), None, [("U", 1)]),
    ],
)
def test_decision_on_a_delete_conflict(
    orders: Directory,
    decide: None,
    decision: str,
    there: str,
    here: tuple[str, ...],
    row: tuple[object, ...] | None,
    logged: list[tuple[str, int]] | None,
) -> None:
    rules.add_delete_resolution(
        orders["hq"], "orders", "custom", parameters={"routine": decision}
    )
    settle(orders, there, *here)
    assert parked(orders["hq"]) == []
    assert first(orders["hq"]) == row
    if logged is not None:
        assert run(orders["hq"], LOG) == logged


def test_restore_sends_the_masters_row(orders: Directory) -> None:
    rules.add_delete_resolution(orders["hq"], "orders", "restore")
    settle(orders, CHANGED, DELETE)
    assert first(orders["hq"]) == ("n1", 27)
    assert run(orders["hq"], LOG) == [("U", 1)]


def test_restore_has_nothing_to_give_back_ignore_behind_it_drops_the_update(
    orders: Directory,
) -> None:
    rules.add_delete_resolution(orders["hq"], "orders", "restore")
    settle(orders, DELETE, UPDATE)
    assert [error[1] for error in parked(orders["hq"])] == ["conflict"]
    rules.add_delete_resolution(orders["hq"], "orders", "ignore")
    deferred.retry_errors(orders["hq"])
    assert parked(orders["hq"]) == []
    assert first(orders["hq"]) is None


def test_row_that_is_inserted_after_all_can_break_a_constraint(
    orders: Directory, decide: None
) -> None:
    rules.add_delete_resolution(
        orders["hq"], "orders", "custom", parameters={"routine": "SITE_WINS"}
    )
    run(orders["hq"], DELETE)
    settle(orders, "INSERT INTO orders VALUES (9, 'n1', 1)", UPDATE)
    [error] = deferred.list_errors(orders["hq"])
    [call] = deferred.show_error(orders["hq"], error.id).calls
    assert call.conflict == "uniqueness conflict of orders_name_key: no rule"


def test_record_names_the_row_and_why(orders: Directory) -> None:
    rules.add_delete_resolution(orders["hq"], "orders", "ignore")
    settle(orders, CHANGED, DELETE)
    assert run(
        orders["hq"],
        "SELECT kind, reference, method, decision, reason, row_key ->> 'id',"
        " rules_version, master, changed_at IS NOT NULL, result_values"
        " FROM snaptide.resolution_record",
    ) == [
        (
            "delete",
            "",
            "ignore",
            "ignore",
            "the call is dropped",
            "1",
            1,
            "hq",
            True,
            None,
        )
    ]
