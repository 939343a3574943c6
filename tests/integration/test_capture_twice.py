"""Rows that one statement changes twice: by two foreign keys that act on them."""

import pytest

import deferred
from sites import Directory
from tests.linked_table import as_refresh, link, parked, rows, run

PARENT = "id int PRIMARY KEY, name text"

SET_NULL = "int REFERENCES person (id) ON DELETE SET NULL ON UPDATE CASCADE"


@pytest.fixture
def people(sites: Directory) -> Directory:
    """People, with father and mother among them, and their orders."""
    link(
        sites,
        "person",
        f"{PARENT}, father {SET_NULL}, mother {SET_NULL}",
    )
    link(sites, "orders", f"id int PRIMARY KEY, bill_to {SET_NULL}, ship_to {SET_NULL}")
    for site in sites.values():
        as_refresh(
            site,
            "INSERT INTO person VALUES (1, 'a', NULL, NULL)",
            "INSERT INTO person VALUES (2, 'b', 1, 1), (3, 'c', 1, 2)",
            "INSERT INTO orders VALUES (10, 1, 1), (11, 1, 2), (12, 2, 2)",
        )
    return sites


@pytest.mark.parametrize(
    "statements",
    [
        ["DELETE FROM person WHERE id = 1"],
        ["UPDATE person SET id = 9 WHERE id = 1"],
        ["UPDATE person SET id = id + 10"],
        ["UPDATE person SET id = 9 WHERE id = 1", "DELETE FROM person WHERE id = 9"],
    ],
    ids=["set null", "cascade", "cascade of all", "cascade and set null"],
)
def test_two_actions_on_one_row(people: Directory, statements: list[str]) -> None:
    run(people["jfk"], *statements)
    assert deferred.push(people["jfk"]).errors == 0
    for table in ("person", "orders"):
        assert rows(people["hq"], table) == rows(people["jfk"], table)
    assert parked(people["hq"]) == []


def test_two_updates_of_one_row_in_one_statement(sites: Directory) -> None:
    """The images of each step are a call, in the order of the steps."""
    link(sites, "parent", "id int PRIMARY KEY")
    link(
        sites,
        "child",
        "id int PRIMARY KEY,"
        " a int REFERENCES parent (id) ON UPDATE CASCADE,"
        " b int REFERENCES parent (id) ON UPDATE CASCADE",
    )
    for site in sites.values():
        as_refresh(
            site, "INSERT INTO parent VALUES (1)", "INSERT INTO child VALUES (5, 1, 1)"
        )
    run(sites["jfk"], "UPDATE parent SET id = 2")
    steps = run(
        sites["jfk"],
        'SELECT kind::text, o1, o2, o3, n1, n2, n3 FROM snaptide."def$_child"'
        " ORDER BY call_no",
    )
    assert len(steps) == 2
    assert steps[0][:4] == ("U", 5, 1, 1)
    assert steps[0][4:] == steps[1][1:4]
    assert steps[1][4:] == (5, 2, 2)
