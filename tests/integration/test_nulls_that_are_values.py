"""Unique constraints that take NULL for a value are so at sites too."""

import pytest

import deferred
import snapshots
from sites import Directory
from tests.fix_sites import log
from tests.linked_table import rows, run
from tests.stories import assert_equal_to_master, refresh

pytestmark = pytest.mark.usefixtures("spark")

DUPLICATE = "duplicate key value violates unique constraint"


@pytest.fixture
def seats(sites: Directory) -> Directory:
    """One seat of each kind has no number."""
    run(
        sites["hq"],
        "CREATE TABLE orders (id int PRIMARY KEY, n int,"
        " UNIQUE NULLS NOT DISTINCT (n))",
        "INSERT INTO orders VALUES (1, 1), (2, 2), (3, NULL)",
    )
    log(sites["hq"], "orders")
    snapshots.create(sites["jfk"], "orders", master="hq", updatable=True)
    refresh(sites["jfk"], "orders")
    return sites


def test_the_second_one_is_refused_at_the_site(seats: Directory) -> None:
    with pytest.raises(Exception, match=DUPLICATE):
        run(seats["jfk"], "INSERT INTO orders VALUES (4, NULL)")


@pytest.mark.parametrize("at", ["hq", "jfk"])
def test_it_passes_from_row_to_row(seats: Directory, at: str) -> None:
    run(
        seats[at],
        "UPDATE orders SET n = 5 WHERE id = 3",
        "UPDATE orders SET n = NULL WHERE id = 1",
        "UPDATE orders SET n = 1 WHERE id = 2",
        "INSERT INTO orders VALUES (4, 2)",
    )
    assert deferred.push(seats["jfk"]).errors == 0
    report = snapshots.refresh(seats["jfk"], "orders")
    assert [one.held_back for one in report.snapshots] == [0]
    assert_equal_to_master(seats["jfk"])
    assert rows(seats["hq"]) == [(1, None), (2, 1), (3, 5), (4, 2)]


def test_a_user_at_the_site_has_it(seats: Directory) -> None:
    """The master's row waits until the site's has been answered."""
    hq, jfk = seats["hq"], seats["jfk"]
    run(jfk, "DELETE FROM orders WHERE id = 3", "INSERT INTO orders VALUES (4, NULL)")
    run(
        hq,
        "UPDATE orders SET n = 3 WHERE id = 3",
        "INSERT INTO orders VALUES (5, NULL)",
    )
    report = snapshots.refresh(jfk, "orders", push_deferred_rpc=False)
    assert sum(one.held_back for one in report.snapshots) == 3
    assert (4, None) in rows(jfk)
    assert deferred.push(jfk).errors == 1
    refresh(jfk, "orders")
    assert_equal_to_master(jfk)


def test_rows_that_follow_where_another_refers_to_nothing(sites: Directory) -> None:
    """A refresh has them refer to nothing for a moment, but not by a second NULL."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE parent (id int PRIMARY KEY, code int UNIQUE)",
        "CREATE TABLE child (id int PRIMARY KEY, code int REFERENCES parent (code)"
        " ON UPDATE CASCADE, UNIQUE NULLS NOT DISTINCT (code))",
        "INSERT INTO parent VALUES (1, 10), (2, 20)",
        "INSERT INTO child VALUES (1, 10), (2, 20), (3, NULL)",
    )
    log(hq, "parent", "child")
    for name in ("parent", "child"):
        snapshots.create(jfk, name, master="hq", group="g", updatable=True)
    refresh(jfk, "g")
    run(
        hq,
        "UPDATE parent SET code = 99 WHERE id = 1",
        "UPDATE parent SET code = 10 WHERE id = 2",
        "UPDATE parent SET code = 20 WHERE id = 1",
    )
    report = snapshots.refresh(jfk, "g")
    assert [one.held_back for one in report.snapshots] == [0, 0]
    for table in ("parent", "child"):
        assert rows(jfk, table) == rows(hq, table)
