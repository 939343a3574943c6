"""One group is quiet at a master, while others go on there."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

import deferred
import groups
from deferred.options import ErrorAction
from deferred.pushing.report import PushReport
from sites import Directory
from snaptide import doctor
from tests.fix_commands import Snaptide
from tests.fix_moments import Moments
from tests.fix_worker import WriteSettings
from tests.fix_worlds import prepared_once
from tests.grouped import GROUP, assert_masters_equal, found_group, push_all
from tests.linked_table import link, rows, run

OTHER = "stock"
ITEMS = "CREATE TABLE items (id int PRIMARY KEY, n int)"


@prepared_once("hq", "lax")
def two(sites: Directory) -> None:
    """Two masters of two groups: orders, and items."""
    _found(sites)


@prepared_once("hq", "lax", "bos")
def three(sites: Directory) -> None:
    """The same with a third master."""
    _found(sites)


def _found(sites: Directory) -> None:
    for site in sites.values():
        run(site, ITEMS)
    home, *others = sites
    found_group(sites, home, *others)
    groups.create_group(sites[home], OTHER)
    groups.add_table(sites[home], OTHER, "items")
    for name in others:
        groups.add_master(sites[home], OTHER, name)
    run(
        sites[home],
        "INSERT INTO orders (id, qty) VALUES (1, 0), (2, 0), (3, 0)",
        "INSERT INTO items VALUES (1, 0), (2, 0)",
    )
    push_all(sites)


def each(sites: Directory, *statements: str, **options: Any) -> PushReport:
    """Push from hq to lax, each statement a transaction."""
    for statement in statements:
        run(sites["hq"], statement)
    return deferred.push(sites["hq"], "lax", **options)


def numbers(sites: Directory, name: str = "lax") -> tuple[list[int], list[int]]:
    """The quantities of orders and of items at a master."""
    orders = [row[2] for row in rows(sites[name])]
    items = run(sites[name], "SELECT n FROM items ORDER BY id")
    return orders, [row[0] for row in items]


def reasons(sites: Mapping[str, Any]) -> list[str]:
    """Why transactions are parked at lax, in their order."""
    return [error.reason for error in deferred.list_errors(sites["lax"])]


def assert_equal(sites: Directory) -> None:
    push_all(sites)
    assert_masters_equal(sites, *sites)
    assert all(numbers(sites, name) == numbers(sites) for name in sites)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batch_size": 100},
        {"parallelism": 2, "group_max_calls": 2},
    ],
    ids=str,
)
def test_one_group_is_held_back_and_the_other_goes_on(
    two: Directory, options: dict[str, Any]
) -> None:
    groups.quiet_group(two["hq"], GROUP, "lax", why="inventory")
    steps = [f"UPDATE orders SET qty = {n} WHERE id = 1" for n in (1, 2, 3)]
    items = [f"UPDATE items SET n = {n} WHERE id = 1" for n in (1, 2, 3)]
    report = each(
        two,
        *[one for pair in zip(steps, items, strict=True) for one in pair],
        "WITH o AS (UPDATE orders SET qty = 7 WHERE id = 2)"
        " UPDATE items SET n = 7 WHERE id = 2",
        "UPDATE items SET n = 8 WHERE id = 2",
        "UPDATE items SET n = 4 WHERE id = 1",
        **options,
    )
    assert (report.transactions, report.held_back, report.errors) == (9, 4, 1)
    assert numbers(two) == ([0, 0, 0], [4, 0])
    assert reasons(two) == ["quiet", "quiet", "quiet", "quiet", "dependant"]
    done = groups.unquiet_group(two["hq"], GROUP, "lax")
    assert (done.was_quiet, done.applied, done.left) == (True, 5, ())
    assert_equal(two)
    assert numbers(two) == ([3, 7, 0], [4, 8])


def test_what_touches_two_quiet_groups_waits_for_both(two: Directory) -> None:
    for group in (GROUP, OTHER):
        groups.quiet_group(two["hq"], group, "lax")
    each(
        two,
        "WITH o AS (UPDATE orders SET qty = 7 WHERE id = 2)"
        " UPDATE items SET n = 7 WHERE id = 2",
        "UPDATE orders SET qty = 8 WHERE id = 2",
        "UPDATE orders SET qty = 8 WHERE id = 1",
    )
    done = groups.unquiet_group(two["hq"], GROUP, "lax")
    assert (done.applied, len(done.left)) == (1, 1)
    assert numbers(two) == ([8, 0, 0], [0, 0])
    assert reasons(two) == ["quiet", "dependant"]
    assert groups.unquiet_group(two["hq"], OTHER, "lax").applied == 2
    assert_equal(two)


def test_what_two_sites_changed_is_applied_in_the_order_in_which_it_came(
    three: Directory,
) -> None:
    groups.quiet_group(three["hq"], GROUP, "lax")
    run(three["hq"], "UPDATE orders SET qty = 1 WHERE id = 1")
    push_all(three)
    run(three["bos"], "UPDATE orders SET qty = 2 WHERE id = 1")
    push_all(three)
    assert [error.origin for error in deferred.list_errors(three["lax"])] == [
        "bos",
        "hq",
    ]
    done = groups.unquiet_group(three["hq"], GROUP, "lax")
    assert (done.applied, done.left) == (2, ())
    assert_equal(three)


def test_group_is_made_quiet_while_a_push_has_planned_its_groups(
    two: Directory, moments: Moments
) -> None:
    moments.at("push.after_plan", lambda: groups.quiet_group(two["hq"], GROUP, "lax"))
    report = each(
        two,
        "INSERT INTO orders (id, qty) SELECT g, 1 FROM generate_series(10, 150) g",
        "UPDATE items SET n = 1 WHERE id = 1",
        "UPDATE orders SET qty = 1 WHERE id = 1",
    )
    assert (report.transactions, report.held_back) == (3, 2)
    assert numbers(two) == ([0, 0, 0], [1, 0])
    assert groups.unquiet_group(two["hq"], GROUP, "lax").applied == 2
    assert_equal(two)


def test_an_error_action_makes_the_group_quiet(two: Directory) -> None:
    groups.set_error_action(two["hq"], GROUP, ErrorAction.QUIET_GROUP)
    run(two["lax"], "UPDATE orders SET qty = 50 WHERE id = 2")
    report = each(
        two,
        "UPDATE orders SET qty = 1 WHERE id = 2",
        "UPDATE orders SET qty = 1 WHERE id = 1",
        "UPDATE orders SET qty = 2 WHERE id = 2",
        "UPDATE items SET n = 1 WHERE id = 1",
    )
    assert (report.transactions, report.errors, report.held_back) == (4, 1, 2)
    assert reasons(two) == ["conflict", "quiet", "quiet"]
    assert numbers(two) == ([0, 50, 0], [1, 0])
    shown = groups.show_group(two["hq"], GROUP)
    [quiet] = [one.quiet for one in shown.masters if one.quiet]
    assert quiet.by == "the push of hq"
    assert "in conflict" in quiet.why
    done = groups.unquiet_group(two["hq"], GROUP, "lax")
    assert (done.applied, len(done.left)) == (1, 1)
    assert numbers(two) == ([1, 50, 0], [1, 0])
    assert reasons(two) == ["conflict", "dependant"]


def test_what_cannot_be_applied_after_all_stays_and_says_why(two: Directory) -> None:
    groups.quiet_group(two["hq"], GROUP, "lax")
    run(two["lax"], "UPDATE orders SET qty = 50 WHERE id = 2")
    each(two, "UPDATE orders SET qty = 1 WHERE id = 2")
    done = groups.unquiet_group(two["hq"], GROUP, "lax")
    [left] = done.left
    assert done.applied == 0
    [error] = deferred.list_errors(two["lax"])
    assert (error.id, error.reason, error.error_message) == (
        left.error_id,
        "error",
        left.reason,
    )
    again = groups.unquiet_group(two["hq"], GROUP, "lax")
    assert (again.was_quiet, again.applied, again.left) == (False, 0, ())


def test_what_is_held_back_is_no_error_of_the_push(two: Directory) -> None:
    groups.quiet_group(two["hq"], GROUP, "lax")
    changes = [f"UPDATE orders SET qty = {n} WHERE id = 1" for n in (1, 2, 3)]
    report = each(two, *changes, stop_on_error=True, error_action="stop")
    assert (report.held_back, report.errors) == (3, 0)
    assert each(two, changes[0], error_limit=1).held_back == 1


def test_push_of_a_snapshot_is_held_back_too(sites: Directory) -> None:
    link(sites)
    found_group(sites, "hq")
    groups.quiet_group(sites["hq"], GROUP, "hq")
    run(sites["jfk"], "INSERT INTO orders (id, qty) VALUES (1, 1)")
    assert deferred.push(sites["jfk"], "hq").held_back == 1
    assert rows(sites["hq"]) == []
    assert groups.unquiet_group(sites["hq"], GROUP, "hq").applied == 1
    assert len(rows(sites["hq"])) == 1


def test_dropped_group_is_quiet_no_more(two: Directory) -> None:
    groups.quiet_group(two["hq"], GROUP, "lax")
    groups.drop_group(two["hq"], GROUP)
    assert run(two["lax"], "SELECT count(*) FROM snaptide.quiet_group") == [(0,)]


def test_commands_and_what_people_are_told(
    two: Directory, write_settings: WriteSettings
) -> None:
    call = partial(Snaptide(write_settings(two)).report, "group")
    call("quiet", "hq", GROUP, "lax", "--why", "inventory", code=2)
    made = call("quiet", "hq", GROUP, "lax", "--only-group", "--why", "inventory")
    assert made["why"] == "inventory"
    masters = call("show", "hq", GROUP, code=3)["masters"]
    assert [one["master"] for one in masters if one["quiet"]] == ["lax"]
    assert call("show", "hq", OTHER)["masters"]
    found = [o for o in doctor.examine(two["lax"]) if o.subject == f"group {GROUP}"]
    assert [one.todo for one in found] == [
        f"snaptide group unquiet hq {GROUP} lax --only-group"
    ]
    assert "inventory" in found[0].what
    each(two, "UPDATE orders SET qty = 1 WHERE id = 1")
    done = call("unquiet", "hq", GROUP, "lax", "--only-group")
    assert (done["applied"], done["left"]) == (1, [])
    call("error-action", "hq", GROUP, "quiet_group")
    assert_equal(two)


def test_column_that_is_gone_stops_no_other_transaction(two: Directory) -> None:
    groups.quiet_group(two["hq"], GROUP, "lax")
    each(two, "UPDATE orders SET qty = 1, name = 'x' WHERE id = 1")
    groups.suspend(two["hq"], GROUP)
    groups.execute_ddl(two["hq"], GROUP, "ALTER TABLE orders DROP COLUMN name")
    groups.resume(two["hq"], GROUP)
    each(two, "UPDATE orders SET qty = 2 WHERE id = 2")
    report = groups.unquiet_group(two["hq"], GROUP, "lax")
    assert report.applied == 1
    assert ["name" in one.reason for one in report.left] == [True]
    assert reasons(two) == ["error"]
    assert run(two["lax"], "SELECT qty FROM orders ORDER BY id") == [(0,), (2,), (0,)]
    [again] = deferred.retry_errors(two["lax"])
    assert not again.applied


def test_group_that_is_suspended_stops_no_other_transaction(two: Directory) -> None:
    """Its own can be applied once it goes on; they are told of as not applied now."""
    for group in (GROUP, OTHER):
        groups.quiet_group(two["hq"], group, "lax")
    each(
        two,
        "UPDATE orders SET qty = 1 WHERE id = 1",
        "UPDATE items SET n = 1 WHERE id = 1",
    )
    groups.suspend(two["hq"], GROUP)
    assert [one.applied for one in deferred.retry_errors(two["lax"])] == [False, True]
    report = groups.unquiet_group(two["hq"], GROUP, "lax")
    assert ["is quiesced" in one.reason for one in report.left] == [True]
    groups.resume(two["hq"], GROUP)
    assert [one.applied for one in deferred.retry_errors(two["lax"])] == [True]
    assert_equal(two)
    assert numbers(two) == ([1, 0, 0], [1, 0])
