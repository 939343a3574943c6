"""A kept statement is not used once the master table is another than it was built for.

Each test makes a change first, so that a statement is kept, and alters the master table
right after it.
"""

import pytest
from sqlalchemy import text

import deferred
import synchronous
from deferred.errors import ValueWouldChange
from sites import Directory
from synchronous.errors import PendingCalls, RefusedByMaster, SynchronousConflict
from tests.coordinated import left_over
from tests.fix_worlds import prepared_once
from tests.linked_table import as_refresh, link, rows, run, run_everywhere

ORDERS = "id int PRIMARY KEY, qty int, parent int, price numeric(8,2)"
ROWS = ", ".join(f"({n}, {n}, NULL, {n})" for n in range(1, 10))
KEPT = {
    "I": "INSERT INTO orders VALUES (90, 90, NULL, 1)",
    "U": "UPDATE orders SET qty = 80 WHERE id = 8",
    "D": "DELETE FROM orders WHERE id = 9",
}


@prepared_once("hq", "jfk")
def linked(sites: Directory) -> None:
    """The table `orders` at both sites, propagated synchronously."""
    link(sites, "orders", ORDERS, synchronous=True)
    run_everywhere(sites, f"INSERT INTO orders VALUES {ROWS}")
    link(sites, "parent", "id int PRIMARY KEY, v int")


def change(sites: Directory, statement: str) -> None:
    with synchronous.begin(sites["jfk"]) as connection:
        connection.execute(text(statement))


def altered(sites: Directory, kind: str, *statements: str) -> None:
    """Have the statement for a kind of call kept, then alter tables of the master."""
    change(sites, KEPT[kind])
    run(sites["hq"], *statements)


def lines(on_what: str, column: str = "id") -> tuple[str, ...]:
    """Rows of users of the master, which refer to orders."""
    made = "CREATE TABLE lines (id int PRIMARY KEY, o int REFERENCES orders ({}) {})"
    return made.format(column, on_what), "INSERT INTO lines VALUES (10, 1)"


def test_a_delete_takes_no_rows_along_unseen(linked: Directory) -> None:
    hq = linked["hq"]
    altered(linked, "D", *lines("ON DELETE CASCADE"))
    with pytest.raises(SynchronousConflict, match="lines"):
        change(linked, "DELETE FROM orders WHERE id = 1")
    assert rows(hq, "lines") == [(10, 1)]
    assert rows(hq) == rows(linked["jfk"])
    change(linked, "DELETE FROM orders WHERE id = 2")
    assert rows(hq) == rows(linked["jfk"])
    assert left_over(linked) == {}


def test_an_update_takes_no_reference_away_unseen(linked: Directory) -> None:
    hq = linked["hq"]
    unique = "ALTER TABLE orders ADD UNIQUE (qty)"
    altered(linked, "U", unique, *lines("ON UPDATE SET NULL", "qty"))
    with pytest.raises(SynchronousConflict, match="lines"):
        change(linked, "UPDATE orders SET qty = 70 WHERE id = 1")
    assert rows(hq, "lines") == [(10, 1)]
    assert rows(hq) == rows(linked["jfk"])


def test_a_unique_value_that_is_taken_is_a_conflict(linked: Directory) -> None:
    altered(linked, "U", "ALTER TABLE orders ADD UNIQUE (qty)")
    as_refresh(linked["hq"], "INSERT INTO orders VALUES (50, 70)")
    with pytest.raises(SynchronousConflict, match="orders_qty_key"):
        change(linked, "UPDATE orders SET qty = 70 WHERE id = 1")
    assert rows(linked["hq"])[0] == rows(linked["jfk"])[0]


def test_a_deferrable_constraint_is_no_hindrance(linked: Directory) -> None:
    altered(linked, "I", "ALTER TABLE orders ADD UNIQUE (qty) DEFERRABLE")
    change(linked, "INSERT INTO orders VALUES (70, 70, NULL, 1)")
    assert rows(linked["hq"]) == rows(linked["jfk"])
    assert left_over(linked) == {}


def test_a_value_is_not_rounded_unseen(linked: Directory) -> None:
    hq = linked["hq"]
    for kind, statement in {
        "I": "INSERT INTO orders VALUES (70, 70, NULL, 7.77)",
        "U": "UPDATE orders SET price = 7.77 WHERE id = 1",
    }.items():
        change(linked, KEPT[kind])
        before = rows(hq)
        run(hq, "ALTER TABLE orders ALTER price TYPE numeric(8,1)")
        with pytest.raises(ValueWouldChange, match=r"numeric\(8,1\) at hq"):
            change(linked, statement)
        assert rows(hq) == before
        run(hq, "ALTER TABLE orders ALTER price TYPE numeric(8,2)")


@pytest.mark.parametrize("kind", ["I", "U"])
def test_a_row_does_not_go_to_the_parent_of_another_site(
    linked: Directory, kind: str
) -> None:
    """The parent that it means waits at its site for a push."""
    hq, jfk = linked["hq"], linked["jfk"]
    run(jfk, "INSERT INTO parent VALUES (3, 7)")
    as_refresh(hq, "INSERT INTO parent VALUES (3, 1)")
    references = "ALTER TABLE orders ADD FOREIGN KEY (parent) REFERENCES parent"
    altered(linked, kind, references)
    statements = {
        "I": "INSERT INTO orders VALUES (70, 70, 3, 1)",
        "U": "UPDATE orders SET parent = 3 WHERE id = 1",
    }
    with pytest.raises(PendingCalls):
        change(linked, statements[kind])
    assert rows(hq) == rows(jfk)
    assert deferred.push(jfk).errors == 1


def test_a_rewrite_rule_refuses_one_change_at_most(linked: Directory) -> None:
    rule = (
        "CREATE RULE many AS ON UPDATE TO orders WHERE new.qty > 99 DO INSTEAD NOTHING"
    )
    altered(linked, "U", rule)
    with pytest.raises(RefusedByMaster):
        change(linked, "UPDATE orders SET qty = 7 WHERE id = 1")
    change(linked, "UPDATE orders SET qty = 7 WHERE id = 1")
    assert rows(linked["hq"]) == rows(linked["jfk"])


def test_a_users_trigger_fires_once(linked: Directory) -> None:
    hq = linked["hq"]
    altered(
        linked,
        "U",
        "CREATE TABLE audit (id int)",
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN INSERT INTO public.audit VALUES (new.id); RETURN new; END'",
        "CREATE TRIGGER note BEFORE UPDATE ON orders FOR EACH ROW"
        " EXECUTE FUNCTION note()",
    )
    change(linked, "UPDATE orders SET qty = 70 WHERE id = 1")
    assert rows(hq, "audit") == [(1,)]
    assert rows(hq) == rows(linked["jfk"])
