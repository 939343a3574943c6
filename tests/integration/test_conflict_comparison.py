"""What is compared to find conflicts: columns by operation, or a row version."""

import pytest

import deferred
import masters
from sites import Directory
from tests.linked_table import as_refresh, link, parked, rows, run


@pytest.fixture
def orders(sites: Directory) -> Directory:
    link(sites)
    for site in sites.values():
        as_refresh(site, "INSERT INTO orders VALUES (1, 'n1', 10, 1, '2026-01-01')")
    return sites


CHANGED = "UPDATE orders SET price = 7 WHERE id = 1"


@pytest.mark.parametrize(
    ("operation", "statement", "errors"),
    [
        ("*", "UPDATE orders SET qty = 15", 0),
        ("update", "UPDATE orders SET qty = 15", 0),
        ("delete", "UPDATE orders SET qty = 15", 1),
        ("*", "DELETE FROM orders", 0),
        ("update", "DELETE FROM orders", 1),
        ("delete", "DELETE FROM orders", 0),
    ],
)
def test_column_is_not_compared(
    orders: Directory, operation: str, statement: str, errors: int
) -> None:
    masters.compare_old_values(
        orders["hq"], "orders", ["price"], operation=operation, compare=False
    )
    run(orders["hq"], CHANGED)
    run(orders["jfk"], statement)
    assert deferred.push(orders["jfk"]).errors == errors


def test_column_is_compared_again(orders: Directory) -> None:
    hq = orders["hq"]
    masters.compare_old_values(hq, "orders", ["price", "qty"], compare=False)
    found = masters.compare_old_values(hq, "orders", ["price"], operation="update")
    assert found.comparison.not_at_update == ("qty",)
    assert found.comparison.not_at_delete == ("price", "qty")


def test_row_version_is_compared_instead_of_all_columns(orders: Directory) -> None:
    """D.7, 1 and 2: an equal version applies, another is a conflict."""
    hq, jfk = orders["hq"], orders["jfk"]
    masters.set_row_version(hq, "orders", "at")
    run(hq, CHANGED)  # without a new version, so nobody has to know
    run(jfk, "UPDATE orders SET qty = 15, at = '2026-02-02'")
    assert deferred.push(jfk).errors == 0
    assert [float(n) for n in rows(hq)[0][2:4]] == [15.0, 7.0]
    run(hq, "UPDATE orders SET name = 'theirs', at = '2026-03-03'")
    run(jfk, "UPDATE orders SET qty = 16, at = '2026-04-04'")
    assert deferred.push(jfk).errors == 1
    run(jfk, "DELETE FROM orders")
    deferred.push(jfk)
    assert len(parked(hq)) == 2
