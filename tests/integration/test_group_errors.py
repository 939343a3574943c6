"""What becomes of a transaction that a master of a group cannot apply."""

import pytest

import deferred
import groups
from deferred.errors import DestinationDisabled, DestinationQuiet
from deferred.options import ErrorAction
from sites import Directory
from tests.fix_worlds import prepared_once
from tests.grouped import GROUP, found_group, push_all
from tests.linked_table import ORDERS, rows, run

ROWS = "INSERT INTO orders (id, qty) VALUES (1, 0), (2, 0), (3, 0)"


@prepared_once("hq", "lax", "bos")
def three(sites: Directory) -> None:
    """Three masters with three rows; lax has changed the second one unseen."""
    found_group(sites, "hq", "lax", "bos")
    run(sites["hq"], ROWS)
    push_all(sites)
    run(sites["lax"], "UPDATE orders SET qty = 50 WHERE id = 2")


def quantities(sites: Directory, name: str) -> list[int]:
    """Of the three rows at a master."""
    return [row[2] for row in rows(sites[name])]


def test_skip_transaction_parks_it_whole_with_what_depends_on_it(
    three: Directory,
) -> None:
    run(three["hq"], "UPDATE orders SET qty = 1")
    run(three["hq"], "UPDATE orders SET qty = 2 WHERE id = 1")
    run(three["hq"], "UPDATE orders SET price = 1 WHERE id = 99", "SELECT 1")
    run(three["hq"], "INSERT INTO orders (id, qty) VALUES (4, 0)")
    assert deferred.push(three["hq"], "lax").errors == 2
    reasons = [error.reason for error in deferred.list_errors(three["lax"])]
    assert reasons == ["conflict", "dependant"]
    assert quantities(three, "lax") == [0, 50, 0, 0]


def test_a_column_that_one_master_computes_alone_stops_nothing(
    three: Directory,
) -> None:
    """As at the master of a snapshot: its values have no place to go."""
    hq, lax = three["hq"], three["lax"]
    computed = "price numeric(10,2) GENERATED ALWAYS AS (qty) STORED"
    run(
        lax,
        "ALTER TABLE orders RENAME TO former",
        f"CREATE TABLE orders ({ORDERS.replace('price numeric(10,2)', computed)})",
        "INSERT INTO orders (id, name, qty) SELECT id, name, qty FROM former",
        "DROP TABLE former CASCADE",
    )
    run(hq, "UPDATE orders SET qty = 1 WHERE id = 1")
    run(hq, "UPDATE orders SET price = 7 WHERE id = 3")
    run(hq, "INSERT INTO orders (id, qty) VALUES (4, 0)")
    assert deferred.push(hq, "lax").errors == 1
    assert quantities(three, "lax") == [1, 50, 0, 0]
    [error] = deferred.list_errors(lax)
    [call] = deferred.show_error(lax, error.id).calls
    assert (call.new or {})["price (generated)"] == "7.00"
    [report] = deferred.retry_errors(lax, without_gone=True)
    assert report.applied
    assert deferred.push(hq, "bos").errors == 0


def test_skip_row_applies_the_others_and_parks_the_row(three: Directory) -> None:
    groups.set_error_action(three["hq"], GROUP, ErrorAction.SKIP_ROW)
    run(three["hq"], "UPDATE orders SET qty = 1")
    run(three["hq"], "UPDATE orders SET qty = 2 WHERE id = 1")
    assert deferred.push(three["hq"], "lax").errors == 1
    assert quantities(three, "lax") == [2, 50, 1]
    [error] = deferred.list_errors(three["lax"])
    parked = deferred.show_error(three["lax"], error.id).calls
    assert [(one.old or {})["id"] for one in parked] == ["2"]
    run(three["lax"], "UPDATE orders SET qty = 0 WHERE id = 2")
    assert [report.applied for report in deferred.retry_errors(three["lax"])] == [True]
    assert quantities(three, "lax") == [2, 1, 1]


def test_skip_row_of_a_transaction_that_is_all_in_conflict(three: Directory) -> None:
    groups.set_error_action(three["hq"], GROUP, ErrorAction.SKIP_ROW)
    run(three["hq"], "UPDATE orders SET qty = 1 WHERE id = 2")
    assert deferred.push(three["hq"], "lax").errors == 1
    assert quantities(three, "lax") == [0, 50, 0]


def test_quiet_database_pauses_one_destination(three: Directory) -> None:
    groups.set_error_action(three["hq"], GROUP, ErrorAction.QUIET_DATABASE)
    run(three["hq"], "UPDATE orders SET qty = 1")
    with pytest.raises(DestinationQuiet, match="in conflict"):
        deferred.push(three["hq"], "lax")
    with pytest.raises(DestinationDisabled):
        deferred.push(three["hq"], "lax")
    assert deferred.push(three["hq"], "bos").transactions == 1
    assert quantities(three, "bos") == [1, 1, 1]
    assert deferred.list_errors(three["lax"]) == []
    run(three["lax"], "UPDATE orders SET qty = 0 WHERE id = 2")
    assert groups.set_quiet(three["hq"], GROUP, "lax", quiet=False) == ["bos", "hq"]
    assert deferred.push(three["hq"], "lax").transactions == 1
    assert quantities(three, "lax") == [1, 1, 1]


def test_quiet_server_pauses_all_destinations_of_the_origin(three: Directory) -> None:
    groups.set_error_action(three["hq"], GROUP, ErrorAction.QUIET_SERVER)
    run(three["hq"], "UPDATE orders SET qty = 1")
    with pytest.raises(DestinationQuiet):
        deferred.push(three["hq"], "lax")
    for name in ("lax", "bos"):
        with pytest.raises(DestinationDisabled):
            deferred.push(three["hq"], name)
    assert deferred.push(three["bos"], "lax").transactions == 0


def test_master_is_made_quiet_by_hand(three: Directory) -> None:
    groups.set_quiet(three["hq"], GROUP, "lax", quiet=True)
    run(three["hq"], "UPDATE orders SET qty = 1 WHERE id = 1")
    for name in ("hq", "bos"):
        with pytest.raises(DestinationDisabled):
            deferred.push(three[name], "lax")
    assert deferred.push(three["hq"], "bos").transactions == 1
    groups.set_quiet(three["hq"], GROUP, "lax", quiet=False)
    assert deferred.push(three["hq"], "lax").transactions == 1


def test_retry_of_all_goes_in_the_order_in_which_they_came(three: Directory) -> None:
    """Whoever made them: what bos changed on what hq had made waits for that."""
    push_all(three)
    groups.set_paths(three["hq"], GROUP, lambda names: groups.star(names, "hq"))
    run(three["lax"], "UPDATE orders SET qty = 70 WHERE id = 1")
    run(three["hq"], "UPDATE orders SET qty = 5 WHERE id = 1")
    deferred.push(three["hq"], "bos")
    run(three["bos"], "UPDATE orders SET qty = 6 WHERE id = 1")
    deferred.push(three["bos"], "hq")
    deferred.push(three["hq"], "lax")
    parked = sorted(deferred.list_errors(three["lax"]), key=lambda one: one.id)
    assert [one.origin for one in parked] == ["hq", "bos"]
    run(three["lax"], "UPDATE orders SET qty = 0 WHERE id = 1")
    reports = deferred.retry_errors(three["lax"])
    assert [(one.error_id, one.applied) for one in reports] == [
        (one.id, True) for one in parked
    ]
