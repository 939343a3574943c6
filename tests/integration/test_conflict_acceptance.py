"""Acceptance statements of Informix (C.6) and Virtuoso (D.7) that concern conflicts."""

from collections.abc import Iterator

import pytest

import deferred
import masters
from masters.resolution import routines
from masters.resolution.conflict import Conflict, Decision, Resolution, undecided
from masters.rules import rulebook
from sites import Directory
from tests.fix_worlds import prepared_once
from tests.linked_table import as_refresh, link, parked, rows, run

LOG = 'SELECT kind::text, k1 FROM snaptide."mlog$_orders"'
EARLY, LATE = "2026-02-02", "2026-03-03"


@prepared_once("hq", "jfk")
def orders(sites: Directory) -> None:
    link(sites)
    for site in sites.values():
        as_refresh(site, "INSERT INTO orders VALUES (1, 'n1', 10, 1, '2026-01-01')")


def use(orders: Directory, method: str, **parameters: object) -> None:
    rule = {"method": method, "parameters": parameters}
    body = {
        "groups": {"all": ["name", "qty", "price", "at"]},
        "update": [{"group": "all", **rule}],
        "unique": [{"constraint": "orders_pkey", **rule}],
        "delete": [rule],
    }
    rulebook.apply(orders["hq"], {"tables": {"orders": body}})


def meet(orders: Directory, there: str, here: str) -> tuple[object, ...] | None:
    """Both change, the site pushes; name and quantity of the row that is left."""
    run(orders["hq"], there)
    run(orders["hq"], 'DELETE FROM snaptide."mlog$_orders"')
    run(orders["jfk"], here)
    deferred.push(orders["jfk"])
    left = {row[0]: row[1:3] for row in rows(orders["hq"])}
    return left.get(2, left.get(1))


def test_c6_13_ignore_discards_an_insert_on_an_existing_row(orders: Directory) -> None:
    use(orders, "informix_ignore")
    insert = "INSERT INTO orders VALUES (2, '{}', {})"
    assert meet(orders, insert.format("a", 1), insert.format("b", 2)) == ("a", 1)
    assert parked(orders["hq"]) == []


@pytest.mark.parametrize(
    ("stamp", "servers", "winner"),
    [
        (EARLY, {"jfk": 1, "hq": 2}, 27),
        (LATE, {"jfk": 1, "hq": 2}, 15),
        (LATE, {"jfk": 2, "hq": 1}, 27),
    ],
)
def test_c6_14_older_update_is_discarded_lower_server_wins_a_tie(
    orders: Directory, stamp: str, servers: dict[str, int], winner: int
) -> None:
    use(orders, "informix_timestamp", column="at", servers=servers)
    change = "UPDATE orders SET qty = {}, at = '{}'"
    left = meet(orders, change.format(27, LATE), change.format(15, stamp))
    assert left == ("n1", winner)


@pytest.mark.parametrize(
    ("method", "left", "errors"),
    [("informix_timestamp", ("n1", 15), 0), ("informix_delete_wins", None, 1)],
)
def test_c6_15_update_of_a_missing_row(
    orders: Directory, method: str, left: tuple[object, ...] | None, errors: int
) -> None:
    use(orders, method, column="at")
    update = f"UPDATE orders SET qty = 15, at = '{LATE}'"
    assert meet(orders, "DELETE FROM orders", update) == left
    assert len(parked(orders["hq"])) == errors


ONE_LOSES = (
    f"UPDATE orders SET qty = 15, at = '{EARLY}' WHERE id = 1",
    f"INSERT INTO orders VALUES (2, 'n2', 1, 1, '{EARLY}')",
    "INSERT INTO orders VALUES (3, 'n3', 1, 1, '{}')",
)


@pytest.mark.parametrize(
    ("scope", "newest", "left", "errors"),
    [
        ("transaction", EARLY, [(1, 27)], 1),
        ("row", EARLY, [(1, 27), (2, 1), (3, 1)], 0),
        # The newest moment of the transaction is held against each row.
        ("transaction", "2026-04-04", [(1, 15), (2, 1), (3, 1)], 0),
        ("row", "2026-04-04", [(1, 27), (2, 1), (3, 1)], 0),
    ],
)
def test_c6_17_transaction_scope_applies_nothing_row_scope_the_others(
    orders: Directory,
    scope: str,
    newest: str,
    left: list[tuple[object, ...]],
    errors: int,
) -> None:
    use(orders, "informix_timestamp", column="at", scope=scope)
    run(orders["hq"], f"UPDATE orders SET qty = 27, at = '{LATE}'")
    run(orders["jfk"], *(statement.format(newest) for statement in ONE_LOSES))
    assert deferred.push(orders["jfk"]).errors == errors
    assert [(row[0], row[2]) for row in rows(orders["hq"])] == left
    if errors:
        assert (
            "rejects the transaction"
            in deferred.list_errors(orders["hq"])[0].error_message
        )


def test_c6_17_ignore_by_transaction_scope(orders: Directory) -> None:
    use(orders, "informix_ignore", scope="transaction")
    insert = "INSERT INTO orders VALUES (2, '{}', {})"
    assert meet(orders, insert.format("a", 1), insert.format("b", 2)) == ("a", 1)
    assert len(parked(orders["hq"])) == 1


def test_c6_21_always_inserts_what_is_missing(orders: Directory) -> None:
    use(orders, "informix_always")
    update = "UPDATE orders SET qty = 15"
    assert meet(orders, "DELETE FROM orders", update) == ("n1", 15)


def test_d7_3_insert_of_a_key_that_is_there_leaves_the_publishers_row(
    orders: Directory,
) -> None:
    masters.add_unique_resolution(orders["hq"], "orders", "orders_pkey", "discard")
    insert = "INSERT INTO orders VALUES (2, '{}', {})"
    assert meet(orders, insert.format("a", 1), insert.format("b", 2)) == ("a", 1)


@pytest.fixture
def resolvers() -> Iterator[list[str]]:
    """Two routines that say that they were asked; the second changes the quantity."""
    asked: list[str] = []

    def first(conflict: Conflict) -> Resolution:
        asked.append("first")
        return undecided("not mine")

    def second(conflict: Conflict) -> Resolution:
        asked.append("second")
        decision = Decision.SITE_WINS_ORIGIN_CHANGED
        return Resolution(decision=decision, values={"qty": 99})

    routines.register("first", first)
    routines.register("second", second)
    yield asked
    for name in ("first", "second"):
        routines.REGISTRY.forget(name)


@pytest.mark.parametrize(
    ("order", "asked"),
    [(("first", "second"), ["first", "second"]), (("second", "first"), ["second"])],
)
def test_d7_4_and_5_resolvers_in_order_and_the_originator_gets_the_new_value(
    orders: Directory, resolvers: list[str], order: tuple[str, ...], asked: list[str]
) -> None:
    masters.set_column_group(orders["hq"], "orders", "all", ["qty"])
    for name in order:
        masters.add_update_resolution(
            orders["hq"], "orders", "all", "custom", parameters={"routine": name}
        )
    change = "UPDATE orders SET qty = {}"
    assert meet(orders, change.format(27), change.format(15)) == ("n1", 99)
    assert resolvers == asked
    assert run(orders["hq"], LOG) == [("U", 1)]


def test_d7_8_delete_of_a_changed_row_leaves_it_without_a_change(
    orders: Directory,
) -> None:
    masters.add_delete_resolution(orders["hq"], "orders", "ignore")
    left = meet(orders, "UPDATE orders SET qty = 27", "DELETE FROM orders")
    assert left == ("n1", 27)
    assert run(orders["hq"], LOG) == []


def test_d7_9_update_of_a_deleted_row_is_ignored(orders: Directory) -> None:
    masters.add_delete_resolution(orders["hq"], "orders", "ignore")
    update = "UPDATE orders SET qty = 15"
    assert meet(orders, "DELETE FROM orders", update) is None
    assert parked(orders["hq"]) == []
