"""Rows that a delete would take along at the master, and that its site did not name."""

from collections.abc import Callable

import pytest
from sqlalchemy import text

import deferred
import groups
import synchronous
from masters import rules
from sites import Directory
from synchronous.errors import SynchronousConflict
from tests.grouped import GROUP, found_group, push_all
from tests.linked_table import (
    ORDERS,
    as_refresh,
    link,
    rows,
    run,
    run_each,
    run_everywhere,
)

CHILD = "id int PRIMARY KEY, parent int REFERENCES parent (id) ON DELETE {action}"


def family(
    sites: Directory, action: str = "CASCADE", *, synchronous: bool = False
) -> None:
    """Two parents with a child each; hq alone has grandchildren."""
    link(sites, "parent", "id int PRIMARY KEY, name text", synchronous=synchronous)
    link(sites, "child", CHILD.format(action=action), synchronous=synchronous)
    run_everywhere(
        sites,
        "INSERT INTO parent VALUES (1, 'a'), (2, 'b')",
        "INSERT INTO child VALUES (10, 1), (20, 2)",
    )


def unknown_child(sites: Directory) -> None:
    as_refresh(sites["hq"], "INSERT INTO child VALUES (11, 1)")


def unknown_grandchild(sites: Directory) -> None:
    run(
        sites["hq"],
        "CREATE TABLE IF NOT EXISTS toy (id int PRIMARY KEY,"
        " child int REFERENCES child (id) ON DELETE CASCADE)",
        "INSERT INTO toy VALUES (100, 10)",
    )


def records(sites: Directory) -> list[tuple[object, ...]]:
    return run(
        sites["hq"],
        "SELECT table_name, method, decision, reason"
        " FROM snaptide.resolution_record ORDER BY id",
    )


@pytest.mark.parametrize("most", [10_000, 1], ids=["together", "one by one"])
def test_what_the_site_named_itself_is_no_conflict(sites: Directory, most: int) -> None:
    family(sites)
    run_each(
        sites["jfk"],
        "UPDATE parent SET name = 'c' WHERE id = 2",
        "DELETE FROM parent WHERE id = 1",
        "DELETE FROM parent",
    )
    assert deferred.push(sites["jfk"], group_max_calls=most).errors == 0
    assert rows(sites["hq"], "parent") == rows(sites["hq"], "child") == []
    assert records(sites) == []


@pytest.mark.parametrize("action", ["CASCADE", "SET NULL"])
def test_row_that_the_site_did_not_know(sites: Directory, action: str) -> None:
    family(sites, action)
    unknown_child(sites)
    run(sites["jfk"], "DELETE FROM parent WHERE id = 1")
    assert deferred.push(sites["jfk"]).errors == 1
    [error] = deferred.list_errors(sites["hq"])
    calls = deferred.show_error(sites["hq"], error.id).calls
    [conflict] = [one.conflict for one in calls if one.conflict]
    assert "child (11,1)" in conflict
    assert rows(sites["hq"], "child") == [(10, 1), (11, 1), (20, 2)]
    rules.add_delete_resolution(sites["hq"], "parent", "cascade")
    deferred.retry_errors(sites["hq"], [error.id])
    gone = {"CASCADE": [(20, 2)], "SET NULL": [(10, None), (11, None), (20, 2)]}
    assert rows(sites["hq"], "child") == gone[action]
    [(table, method, decision, reason)] = records(sites)
    assert (table, method, decision) == ("parent", "cascade", "site_wins")
    assert "child (11,1)" in str(reason)


def test_row_of_a_table_that_the_site_does_not_have(sites: Directory) -> None:
    family(sites)
    unknown_grandchild(sites)
    run(sites["jfk"], "DELETE FROM parent WHERE id = 1")
    assert deferred.push(sites["jfk"]).errors == 1
    assert run(sites["hq"], "SELECT * FROM toy") == [(100, 10)]
    rules.add_delete_resolution(sites["hq"], "child", "cascade")
    [error] = deferred.list_errors(sites["hq"])
    deferred.retry_errors(sites["hq"], [error.id])
    assert run(sites["hq"], "SELECT * FROM toy") == []
    assert [one[0] for one in records(sites)] == ["child"]


def test_record_names_all_generations(sites: Directory) -> None:
    family(sites)
    unknown_child(sites)
    unknown_grandchild(sites)
    run(
        sites["hq"],
        "INSERT INTO toy VALUES (101, 11)",
        "DELETE FROM toy WHERE id = 100",
    )
    rules.add_delete_resolution(sites["hq"], "parent", "cascade")
    run(sites["jfk"], "DELETE FROM parent WHERE id = 1")
    assert deferred.push(sites["jfk"]).errors == 0
    [(*_, reason)] = records(sites)
    assert "child (11,1)" in str(reason)
    assert "toy (101,11)" in str(reason)


@pytest.mark.parametrize("method", ["restore", "ignore"])
def test_row_that_a_rule_has_just_kept(sites: Directory, method: str) -> None:
    """The record says that the master won: so it is there afterwards."""
    family(sites)
    rules.add_delete_resolution(sites["hq"], "child", method)
    as_refresh(sites["hq"], "ALTER TABLE child ADD note text")
    as_refresh(sites["hq"], "UPDATE child SET parent = 1 WHERE id = 20")
    run(
        sites["jfk"],
        "DELETE FROM child WHERE id = 20",
        "DELETE FROM parent WHERE id = 1",
    )
    assert deferred.push(sites["jfk"]).errors == 1
    assert [row[0] for row in rows(sites["hq"], "child")] == [10, 20]
    rules.add_delete_resolution(sites["hq"], "parent", method)
    [error] = deferred.list_errors(sites["hq"])
    deferred.retry_errors(sites["hq"], [error.id])
    assert [row[0] for row in rows(sites["hq"], "parent")] == [1, 2]
    assert [row[0] for row in rows(sites["hq"], "child")] == [20]


def test_row_that_refers_to_its_own_table(sites: Directory) -> None:
    link(
        sites,
        "person",
        "id int PRIMARY KEY, boss int REFERENCES person (id) ON DELETE CASCADE",
    )
    run_everywhere(sites, "INSERT INTO person VALUES (1, NULL), (2, 1), (3, 2)")
    as_refresh(sites["hq"], "INSERT INTO person VALUES (4, 3)")
    run(sites["jfk"], "DELETE FROM person WHERE id = 2")
    assert deferred.push(sites["jfk"]).errors == 1
    run(sites["hq"], "DELETE FROM person WHERE id = 4")
    [error] = deferred.list_errors(sites["hq"])
    deferred.retry_errors(sites["hq"], [error.id])
    assert rows(sites["hq"], "person") == [(1, None)]


def test_synchronous_delete(sites: Directory) -> None:
    family(sites, synchronous=True)
    unknown_child(sites)
    delete = text("DELETE FROM public.parent WHERE id = 1")
    with synchronous.begin(sites["jfk"]) as connection:
        connection.execute(text("DELETE FROM public.child WHERE id = 10"))
        with pytest.raises(SynchronousConflict):
            connection.execute(delete)
        connection.rollback()
    run(sites["hq"], "DELETE FROM child WHERE id = 11")
    with synchronous.begin(sites["jfk"]) as connection:
        connection.execute(delete)
    assert rows(sites["hq"], "child") == [(20, 2)]


def test_other_master_of_a_group(make_sites: Callable[..., Directory]) -> None:
    """It has a child that the first one had not seen when it deleted the parent."""
    sites = make_sites("hq", "lax")
    for site in sites.values():
        run(
            site,
            f"CREATE TABLE orders ({ORDERS})",
            "CREATE TABLE parent (id int PRIMARY KEY)",
            f"CREATE TABLE child ({CHILD.format(action='CASCADE')})",
        )
    found_group(sites, "hq")
    for table in ("parent", "child"):
        groups.add_table(sites["hq"], GROUP, table)
    groups.add_master(sites["hq"], GROUP, "lax")
    run(
        sites["hq"],
        "INSERT INTO parent VALUES (1), (2)",
        "INSERT INTO child VALUES (10, 1), (20, 2)",
    )
    push_all(sites)
    run(sites["hq"], "DELETE FROM parent WHERE id = 2")
    push_all(sites)
    assert rows(sites["lax"], "child") == [(10, 1)]
    run(sites["lax"], "INSERT INTO child VALUES (11, 1)")
    run(sites["hq"], "DELETE FROM parent WHERE id = 1")
    deferred.push(sites["hq"], "lax")
    assert len(deferred.list_errors(sites["lax"])) == 1
    assert rows(sites["lax"], "child") == [(10, 1), (11, 1)]
