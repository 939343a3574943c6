"""Conflicts at the master: found by old values, settled by rules, or parked whole."""

from collections.abc import Iterator

import pytest

import deferred
from masters import rules
from masters.resolution import routines
from masters.resolution.conflict import Conflict, Decision, Resolution, undecided
from sites import Directory, Site
from tests.fix_worlds import prepared_once
from tests.linked_table import as_refresh, link, parked, queued, rows, run


@prepared_once("hq", "jfk")
def orders(sites: Directory) -> None:
    """Three orders at both sites; nothing is queued."""
    link(sites)
    for site in sites.values():
        as_refresh(
            site,
            "INSERT INTO orders SELECT g, 'n' || g, 10, 1, '2026-01-01'"
            " FROM generate_series(1, 3) g",
        )


def both_change(orders: Directory, here: str, there: str, row: int = 1) -> None:
    """Change one row at the master and at the site, and push."""
    run(orders["hq"], CHANGE.format(there, row))
    run(orders["jfk"], CHANGE.format(here, row))
    deferred.push(orders["jfk"])


CHANGE = "UPDATE orders SET {} WHERE id = {}"


def test_a14_4_conflict_without_method_is_parked_and_the_rest_goes_on(
    orders: Directory,
) -> None:
    hq, jfk = orders["hq"], orders["jfk"]
    run(hq, "UPDATE orders SET qty = 20 WHERE id = 1")
    run(jfk, "UPDATE orders SET qty = 15 WHERE id = 1")
    run(jfk, "UPDATE orders SET qty = 15 WHERE id = 2")
    report = deferred.push(jfk)
    assert (report.transactions, report.errors) == (2, 1)
    assert [row[2] for row in rows(hq)] == [20, 15, 10]
    assert queued(jfk) == 0
    [listed] = deferred.list_errors(hq)
    error = deferred.show_error(hq, listed.id)
    assert (error.reason, error.error_code, error.origin) == (
        "conflict",
        "SNP-314",
        "jfk",
    )
    [call] = error.calls
    assert (call.old, call.new, call.current) == (
        _image(qty="10"),
        _image(qty="15"),
        _image(qty="20"),
    )
    assert call.conflict == "update conflict: no rule"
    assert list(report.error_ids) == [listed.id]


def test_a14_5_neither_row_of_a_transaction_in_conflict_is_applied(
    orders: Directory,
) -> None:
    run(orders["hq"], "UPDATE orders SET qty = 20 WHERE id = 1")
    run(orders["jfk"], "UPDATE orders SET qty = 15 WHERE id < 3")
    before = rows(orders["hq"])
    deferred.push(orders["jfk"])
    assert rows(orders["hq"]) == before
    [listed] = deferred.list_errors(orders["hq"])
    calls = deferred.show_error(orders["hq"], listed.id).calls
    assert [call.conflict is None for call in calls] == [False, True]
    assert calls[1].current == {**_image(qty="10"), "id": "2", "name": "n2"}


def test_other_columns_of_the_row_conflict_too(orders: Directory) -> None:
    """Without column groups a row is one group, the shadow group."""
    both_change(orders, here="qty = 15", there="name = 'theirs'")
    assert [error[1] for error in parked(orders["hq"])] == ["conflict"]


def test_column_groups_are_compared_apart(orders: Directory) -> None:
    rules.set_column_group(orders["hq"], "orders", "amounts", ["qty"])
    both_change(orders, here="qty = 15", there="name = 'theirs'")
    assert parked(orders["hq"]) == []
    assert rows(orders["hq"])[0][1:3] == ("theirs", 15)


def test_shadow_group_has_no_rules(orders: Directory) -> None:
    _group(orders, "qty", "overwrite")
    both_change(orders, here="qty = 15, name = 'mine'", there="qty = 16, name = 'x'")
    assert [error[1] for error in parked(orders["hq"])] == ["conflict"]
    assert rows(orders["hq"])[0][1:3] == ("x", 16)


def test_same_change_at_both_sides_is_still_compared(orders: Directory) -> None:
    """Oracle: any old value that differs is a conflict, whatever the new ones are."""
    both_change(orders, here="qty = 15", there="qty = 15")
    assert [error[1] for error in parked(orders["hq"])] == ["conflict"]


@pytest.mark.parametrize(
    ("method", "expected"),
    [("overwrite", 15), ("discard", 27), ("additive", 32)],
)
def test_method_settles_an_update_conflict(
    orders: Directory, method: str, expected: int
) -> None:
    _group(orders, "qty", method)
    both_change(orders, here="qty = 15", there="qty = 27")
    assert parked(orders["hq"]) == []
    assert rows(orders["hq"])[0][2] == expected
    assert run(
        orders["hq"],
        "SELECT method, old_values ->> 'qty', new_values ->> 'qty',"
        " current_values ->> 'qty', result_values ->> 'qty', row_key ->> 'id', origin"
        " FROM snaptide.resolution_record",
    ) == [(method, "10", "15", "27", str(expected), "1", "jfk")]


def test_a14_9_additive_adds_both_differences(orders: Directory) -> None:
    _group(orders, "qty", "additive")
    both_change(orders, here="qty = 15", there="qty = 7")
    assert rows(orders["hq"])[0][2] == 12


def test_a14_9_average_takes_the_mean_of_both(orders: Directory) -> None:
    _group(orders, "qty", "average")
    both_change(orders, here="qty = 15", there="qty = 7")
    assert rows(orders["hq"])[0][2] == 11


@pytest.mark.parametrize(("stamp", "winner"), [("2026-03-03", 15), ("2026-01-02", 27)])
def test_latest_timestamp_takes_the_whole_group(
    orders: Directory, stamp: str, winner: int
) -> None:
    rules.set_column_group(orders["hq"], "orders", "g", ["qty", "at"])
    rules.add_update_resolution(
        orders["hq"], "orders", "g", "latest_timestamp", parameters={"column": "at"}
    )
    both_change(
        orders, here=f"qty = 15, at = '{stamp}'", there="qty = 27, at = '2026-02-02'"
    )
    assert rows(orders["hq"])[0][2] == winner
    assert parked(orders["hq"]) == []


def test_a14_10_equal_stamps_need_a_backup(orders: Directory) -> None:
    rules.set_column_group(orders["hq"], "orders", "g", ["qty", "at"])
    rules.add_update_resolution(
        orders["hq"], "orders", "g", "latest_timestamp", parameters={"column": "at"}
    )
    change = "at = '2026-02-02', qty = {}"
    both_change(orders, here=change.format(15), there=change.format(27))
    assert [error[1] for error in parked(orders["hq"])] == ["conflict"]
    rules.add_update_resolution(
        orders["hq"],
        "orders",
        "g",
        "site_priority",
        parameters={"priorities": {"jfk": 2, "hq": 1}},
    )
    both_change(orders, here=change.format(15), there=change.format(27), row=2)
    assert rows(orders["hq"])[1][2] == 15
    assert len(parked(orders["hq"])) == 1


def test_infinite_stamps_are_compared(orders: Directory) -> None:
    rules.set_column_group(orders["hq"], "orders", "g", ["qty", "at"])
    rules.add_update_resolution(
        orders["hq"], "orders", "g", "latest_timestamp", parameters={"column": "at"}
    )
    both_change(
        orders, here="qty = 15, at = 'infinity'", there="qty = 27, at = '2026-02-02'"
    )
    assert parked(orders["hq"]) == []
    assert rows(orders["hq"])[0][2] == 15


def test_each_group_by_its_own_rule(orders: Directory) -> None:
    _group(orders, "qty", "additive")
    _group(orders, "name", "discard")
    _group(orders, "price", "overwrite")
    both_change(
        orders,
        here="qty = 11, name = 'mine', price = 2",
        there="qty = 12, name = 'theirs', price = 3",
    )
    [(_, name, qty, price, _), *_] = rows(orders["hq"])
    assert (name, qty, float(price)) == ("theirs", 13, 2.0)


def test_settled_row_keeps_what_neither_side_disputes(orders: Directory) -> None:
    """A column that only one side changed is that side's."""
    for column in ("qty", "name", "price"):
        rules.set_column_group(orders["hq"], "orders", column, [column])
    rules.add_update_resolution(orders["hq"], "orders", "qty", "overwrite")
    both_change(orders, here="qty = 15, price = 9", there="qty = 27, name = 'theirs'")
    [(_, name, qty, price, _), *_] = rows(orders["hq"])
    assert (name, qty, float(price)) == ("theirs", 15, 9.0)


def test_rest_of_a_settled_transaction_is_applied(orders: Directory) -> None:
    _group(orders, "qty", "discard")
    run(orders["hq"], "UPDATE orders SET qty = 27 WHERE id = 1")
    run(
        orders["jfk"],
        "UPDATE orders SET qty = 15 WHERE id < 3",
        "DELETE FROM orders WHERE id = 3",
        "INSERT INTO orders VALUES (4, 'n4', 4)",
    )
    report = deferred.push(orders["jfk"])
    assert (report.errors, report.conflicts_resolved) == (0, 1)
    assert [row[::2][:2] for row in rows(orders["hq"])] == [(1, 27), (2, 15), (4, 4)]


def test_delete_of_a_changed_row_is_a_conflict(orders: Directory) -> None:
    run(orders["hq"], "UPDATE orders SET qty = 27 WHERE id = 1")
    run(orders["jfk"], "DELETE FROM orders WHERE id = 1")
    deferred.push(orders["jfk"])
    assert _conflicts(orders["hq"]) == ["delete conflict: no rule"]
    assert rows(orders["hq"])[0][2] == 27


@pytest.mark.parametrize(
    "statement", [CHANGE.format("qty = 1", 1), "DELETE FROM orders"]
)
def test_row_that_is_gone_is_a_conflict(orders: Directory, statement: str) -> None:
    run(orders["hq"], "DELETE FROM orders WHERE id = 1")
    run(orders["jfk"], statement)
    deferred.push(orders["jfk"])
    assert "delete conflict: no rule" in _conflicts(orders["hq"])
    assert [row[0] for row in rows(orders["hq"])] == [2, 3]


def test_key_that_is_there_is_a_conflict(orders: Directory) -> None:
    run(orders["hq"], "INSERT INTO orders VALUES (4, 'theirs', 1)")
    run(orders["jfk"], "INSERT INTO orders VALUES (4, 'mine', 2)")
    deferred.push(orders["jfk"])
    assert _conflicts(orders["hq"]) == ["uniqueness conflict of orders_pkey: no rule"]
    [error] = deferred.list_errors(orders["hq"])
    [call] = deferred.show_error(orders["hq"], error.id).calls
    assert call.current is not None
    assert call.current["name"] == "theirs"


@pytest.mark.parametrize(
    "statement",
    ["INSERT INTO orders VALUES (5, 'taken', 2)", CHANGE.format("name = 'taken'", 1)],
)
def test_unique_value_that_is_taken_is_a_conflict(
    orders: Directory, statement: str
) -> None:
    run(orders["hq"], "INSERT INTO orders VALUES (4, 'taken', 1)")
    run(orders["jfk"], statement)
    deferred.push(orders["jfk"])
    [(_, reason, code, _)] = parked(orders["hq"])
    assert (reason, code) == ("conflict", "SNP-314")
    assert _conflicts(orders["hq"]) == [
        "uniqueness conflict of orders_name_key: no rule"
    ]


@pytest.fixture
def routine() -> Iterator[str]:
    """A routine that lets the site win, with half of what it wanted."""

    def halve(conflict: Conflict) -> Resolution:
        assert conflict.new is not None
        wanted = conflict.new["qty"]
        if not isinstance(wanted, int) or wanted > 1000:
            return undecided("too much")
        return Resolution(decision=Decision.SITE_WINS, values={"qty": wanted // 2})

    routines.register("halve", halve)
    yield "halve"
    routines.REGISTRY.forget("halve")


def test_custom_routine_decides(orders: Directory, routine: str) -> None:
    _group(orders, "qty", "custom", routine=routine)
    both_change(orders, here="qty = 100", there="qty = 7")
    assert rows(orders["hq"])[0][2] == 50
    both_change(orders, here="qty = 2000", there="qty = 8", row=2)
    assert rows(orders["hq"])[1][2] == 8
    assert _conflicts(orders["hq"]) == [
        "update conflict in column group qty: custom: too much"
    ]


def test_missing_routine_leaves_the_conflict(orders: Directory, routine: str) -> None:
    _group(orders, "qty", "custom", routine=routine)
    routines.REGISTRY.forget("halve")
    both_change(orders, here="qty = 100", there="qty = 7")
    [conflict] = _conflicts(orders["hq"])
    assert "halve" in conflict


@pytest.mark.parametrize(
    ("columns", "here", "there", "settled"),
    [
        ("id int PRIMARY KEY, v numeric", "1.5", "1.50", True),
        ("id int PRIMARY KEY, v char(5)", "'a'", "'a '", True),
        ("id int PRIMARY KEY, v float8", "'NaN'", "'NaN'", True),
        ("id int PRIMARY KEY, v float8", "0", "'-0'", True),
        ("id int PRIMARY KEY, v json", "'{\"a\": 1}'", "'{\"a\": 1}'", True),
        ("id int PRIMARY KEY, v json", "'{\"a\": 1}'", "'{\"a\":1}'", False),
        ("id int PRIMARY KEY, v text", "NULL", "''", False),
        ("id int PRIMARY KEY, v point", "'(1,2)'", "'(1,2)'", True),
    ],
)
def test_equality_is_the_types_own(
    sites: Directory, columns: str, here: str, there: str, settled: bool
) -> None:
    link(sites, "odd", columns)
    insert = "INSERT INTO odd VALUES (1, {})"
    as_refresh(sites["jfk"], insert.format(here))
    as_refresh(sites["hq"], insert.format(there))
    run(sites["jfk"], "DELETE FROM odd")
    assert deferred.push(sites["jfk"]).errors == (0 if settled else 1)


def _group(orders: Directory, column: str, method: str, **parameters: object) -> None:
    rules.set_column_group(orders["hq"], "orders", column, [column])
    rules.add_update_resolution(
        orders["hq"], "orders", column, method, parameters=parameters
    )


def _conflicts(hq: Site) -> list[str]:
    return [
        call.conflict
        for error in deferred.list_errors(hq)
        for call in deferred.show_error(hq, error.id).calls
        if call.conflict is not None
    ]


def _image(**changed: str) -> dict[str, str]:
    return {
        "id": "1",
        "name": "n1",
        "qty": "10",
        "price": "1.00",
        "at": "2026-01-01 00:00:00+00",
        **changed,
    }
