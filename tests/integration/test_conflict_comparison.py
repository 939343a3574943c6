"""What is compared to find conflicts: columns by operation, or a row version."""

from pathlib import Path

import pytest

import deferred
import masters
from masters.errors import RuleError
from masters.rules import rulebook
from sites import Directory
from tests.fix_worlds import prepared_once
from tests.linked_table import as_refresh, link, parked, rows, run

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "conflict-matrix.md"


@prepared_once("hq", "jfk")
def orders(sites: Directory) -> None:
    link(sites)
    for site in sites.values():
        as_refresh(site, "INSERT INTO orders VALUES (1, 'n1', 10, 1, '2026-01-01')")


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


def stated() -> list[list[str]]:
    """The second table of the matrix: setting, operation, here, there, outcome."""
    text = PAGE.read_text("utf-8").partition("## What is compared and sent")[2]
    lines = [line for line in text.splitlines() if line[:1] == "|"]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


SETTINGS = {
    "not compared": lambda hq, operation: masters.compare_old_values(
        hq, "t", ["v"], operation=operation, compare=False
    ),
    "not sent": lambda hq, operation: masters.send_old_values(
        hq, "t", ["v"], operation=operation, send=False
    ),
}
HERE = {
    "update same column": "UPDATE t SET v = 'site' WHERE id = {}",
    "update to NULL": "UPDATE t SET v = NULL WHERE id = {}",
    "update other column": "UPDATE t SET w = 'site' WHERE id = {}",
    "delete": "DELETE FROM t WHERE id = {}",
}


@pytest.mark.parametrize("operation", ["update", "delete"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_every_cell_is_as_stated(
    sites: Directory, setting: str, operation: str
) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    link(sites, "t", "id int PRIMARY KEY, v text, w text")
    SETTINGS[setting](hq, operation)
    cells = [c for c in stated() if c[:2] == [setting, operation]]
    assert {here for _, _, here, _ in cells} == set(HERE)
    for site in sites.values():
        as_refresh(
            site, "INSERT INTO t SELECT g, 'old', 'w' FROM generate_series(0, 3) g"
        )
    run(hq, "UPDATE t SET v = 'master'")
    for number, (_, _, here, _) in enumerate(cells):
        run(jfk, HERE[here].format(number))
    deferred.push(jfk)
    refused = {
        int(str((call.old or {})["id"]))
        for error in deferred.list_errors(hq)
        for call in deferred.show_error(hq, error.id).calls
    }
    for number, cell in enumerate(cells):
        found = run(hq, f"SELECT v, w FROM t WHERE id = {number}")
        left = ", ".join(str(value) for value in found[0]) if found else "gone"
        assert ("parked" if number in refused else left) == cell[3], cell


def test_old_values_that_are_not_sent_do_not_arrive(orders: Directory) -> None:
    hq, jfk = orders["hq"], orders["jfk"]
    masters.send_old_values(hq, "orders", ["name", "price"], send=False)
    run(hq, "UPDATE orders SET qty = 7")
    run(jfk, "UPDATE orders SET qty = 8, name = 'mine', price = NULL")
    deferred.push(jfk)
    [call] = deferred.show_error(hq, 1).calls
    assert call.old is not None
    # A value that became NULL is sent: nothing else would tell.
    assert [call.old[n] for n in ("qty", "name", "price")] == ["10", None, "1.00"]
    run(jfk, "UPDATE orders SET name = 'newer'")
    deferred.push(jfk)
    assert [error[1] for error in parked(hq)] == ["conflict", "dependant"]


@pytest.mark.parametrize("column", ["id", "at"])
def test_key_and_row_version_have_to_be_sent(orders: Directory, column: str) -> None:
    masters.set_row_version(orders["hq"], "orders", "at")
    with pytest.raises(RuleError, match="must be sent"):
        masters.send_old_values(orders["hq"], "orders", [column], send=False)


def test_file_says_what_is_not_sent(orders: Directory) -> None:
    hq = orders["hq"]
    masters.send_old_values(hq, "orders", ["name"], operation="delete", send=False)
    book = rulebook.export(hq)
    assert book["tables"]["orders"] == {"not_sent": {"delete": ["name"]}}
    masters.send_old_values(hq, "orders", ["name"])
    assert rulebook.apply(hq, book) == ["+ orders not_sent: {'delete': ['name']}"]
    assert rulebook.diff(hq, book) == []


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
