"""What an edit makes of a parked call: an update, an insert, or a row with another key.

An edited call starts from the row that the master had when the call was parked.
"""

import pytest

import deferred
from deferred import Edit
from deferred.errors import BadEdit
from sites import Directory
from tests.fix_worlds import prepared_once
from tests.linked_table import as_refresh, link_orders, parked, rows, run

CHANGED = "UPDATE orders SET qty = 99 WHERE id = 1"
DELETED = "DELETE FROM orders WHERE id = 1"
INSERTED = "INSERT INTO orders VALUES (2, 'hq', 20)"

UPDATE = "UPDATE orders SET qty = 15 WHERE id = 1"
NEW_KEY = "UPDATE orders SET id = 5, qty = 15 WHERE id = 1"
INSERT = "INSERT INTO orders VALUES (2, 'jfk', 25)"


@prepared_once("hq", "jfk")
def orders(sites: Directory) -> None:
    """One order, the same at both sites."""
    link_orders(sites, "(1, 'old', 10)")


def park(sites: Directory, at_master: str, at_site: str) -> int:
    """Change a row at both, push, and return the id of the error."""
    as_refresh(sites["hq"], at_master)
    run(sites["jfk"], at_site)
    deferred.push(sites["jfk"])
    [(error_id, *_)] = parked(sites["hq"])
    return int(error_id)


@pytest.mark.parametrize(
    ("at_master", "at_site", "edit", "then"),
    [
        (CHANGED, UPDATE, "qty=60", [(1, "old", 60)]),
        (CHANGED, UPDATE, "id=9", [(9, "old", 15)]),
        (DELETED, UPDATE, "qty=60", [(1, "old", 60)]),
        (DELETED, UPDATE, "id=9", [(9, "old", 15)]),
        (CHANGED, NEW_KEY, "id=1", [(1, "old", 15)]),
        (CHANGED, NEW_KEY, "id=7", [(7, "old", 15)]),
        (CHANGED, NEW_KEY, "name=new", [(5, "new", 15)]),
        (DELETED, NEW_KEY, "name=new", [(5, "new", 15)]),
        (INSERTED, INSERT, "name=both", [(1, "old", 10), (2, "both", 25)]),
        (INSERTED, INSERT, "id=3", [(1, "old", 10), (2, "hq", 20), (3, "jfk", 25)]),
    ],
)
def test_edited_call(
    orders: Directory,
    at_master: str,
    at_site: str,
    edit: str,
    then: list[tuple[object, ...]],
) -> None:
    hq = orders["hq"]
    error_id = park(orders, at_master, at_site)
    edits = [Edit.parse(f"orders.{edit}")]
    [report] = deferred.retry_errors(hq, [error_id], edits=edits)
    assert report.applied, report.reason
    assert rows(hq) == then
    assert parked(hq) == []


@pytest.mark.parametrize("order", [1, -1])
def test_edits_of_one_call_decide_together(orders: Directory, order: int) -> None:
    """An edit that keeps the key does not make the other one a change of that row."""
    hq = orders["hq"]
    error_id = park(orders, INSERTED, INSERT)
    edits = [Edit.parse("orders.name=both"), Edit.parse("orders.id=3")][::order]
    [report] = deferred.retry_errors(hq, [error_id], edits=edits)
    assert report.applied, report.reason
    assert rows(hq) == [(1, "old", 10), (2, "hq", 20), (3, "both", 25)]


def test_delete_has_no_value_to_edit(orders: Directory) -> None:
    error_id = park(orders, CHANGED, DELETED)
    with pytest.raises(BadEdit, match="no new value of 'qty'"):
        deferred.retry_errors(
            orders["hq"], [error_id], edits=[Edit.parse("orders.qty=1")]
        )
