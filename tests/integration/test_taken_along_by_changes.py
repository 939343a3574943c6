"""Rows that ON UPDATE would change at the master, and that a site did not name."""

import pytest
from sqlalchemy import text

import deferred
import synchronous
from masters import rules
from sites import Directory
from synchronous.errors import SynchronousConflict
from tests.linked_table import as_refresh, link, rows, run, run_each, run_everywhere

PARENT = "id int PRIMARY KEY, code text UNIQUE, note text"
CHILD = (
    "id int PRIMARY KEY,"
    " parent int DEFAULT 0 REFERENCES parent (id) {0},"
    " code text DEFAULT 'z' REFERENCES parent (code) {0}"
)
KEY = "UPDATE parent SET id = 3 WHERE id = 1"
CODE = "UPDATE parent SET code = 'c' WHERE id = 1"
#: What a child of the first parent refers to, by what the foreign keys do.
BY_KEY = {"SET NULL": (None, "a"), "SET DEFAULT": (0, "a")}
BY_CODE = {"SET NULL": (1, None), "SET DEFAULT": (1, "z")}


def family(sites: Directory, does: str, *, synchronous: bool = False) -> None:
    """Two parents with a child each, and one for those that lose theirs."""
    link(sites, "parent", PARENT, synchronous=synchronous)
    link(sites, "child", CHILD.format(does), synchronous=synchronous)
    run_everywhere(
        sites,
        "INSERT INTO parent VALUES (0, 'z', ''), (1, 'a', ''), (2, 'b', '')",
        "INSERT INTO child VALUES (10, 1, 'a'), (20, 2, 'b')",
    )


def unknown_child(sites: Directory) -> None:
    as_refresh(sites["hq"], "INSERT INTO child VALUES (11, 1, 'a')")


def parked(sites: Directory) -> str:
    """The conflict that the only parked transaction is in."""
    [error] = deferred.list_errors(sites["hq"])
    calls = deferred.show_error(sites["hq"], error.id).calls
    [conflict] = [one.conflict for one in calls if one.conflict]
    return conflict


def retried(sites: Directory, method: str, table: str = "parent") -> None:
    """The parked transaction, once a rule says what becomes of it."""
    rules.add_delete_resolution(sites["hq"], table, method)
    [error] = deferred.list_errors(sites["hq"])
    [report] = deferred.retry_errors(sites["hq"], [error.id])
    assert report.applied, report.reason


def records(sites: Directory) -> list[tuple[object, ...]]:
    return run(
        sites["hq"],
        "SELECT table_name, method, decision, reason, result_values"
        " FROM snaptide.resolution_record ORDER BY id",
    )


@pytest.mark.parametrize("most", [10_000, 1], ids=["together", "one by one"])
@pytest.mark.parametrize("action", ["CASCADE", "SET NULL", "SET DEFAULT"])
def test_what_the_site_named_itself_is_no_conflict(
    sites: Directory, action: str, most: int
) -> None:
    family(sites, f"ON UPDATE {action}")
    run_each(sites["jfk"], KEY, "UPDATE parent SET code = 'd', note = 'e' WHERE id = 3")
    assert deferred.push(sites["jfk"], group_max_calls=most).errors == 0
    for table in ("parent", "child"):
        assert rows(sites["hq"], table) == rows(sites["jfk"], table)
    assert records(sites) == []


@pytest.mark.parametrize("action", ["SET NULL", "SET DEFAULT"])
@pytest.mark.parametrize(
    ("change", "left"), [(KEY, BY_KEY), (CODE, BY_CODE)], ids=["key", "unique value"]
)
def test_row_that_the_site_did_not_know(
    sites: Directory, action: str, change: str, left: dict[str, tuple[object, ...]]
) -> None:
    family(sites, f"ON UPDATE {action}")
    unknown_child(sites)
    rules.set_column_group(sites["hq"], "parent", "codes", ["code"])
    # A row that gets another key has to be as it was, in every column.
    note = "" if change is KEY else "of hq"
    as_refresh(sites["hq"], f"UPDATE parent SET note = '{note}'")
    before = rows(sites["hq"], "parent"), rows(sites["hq"], "child")
    run(sites["jfk"], change)
    assert deferred.push(sites["jfk"]).errors == 1
    assert "child (11,1,a)" in parked(sites)
    assert (rows(sites["hq"], "parent"), rows(sites["hq"], "child")) == before
    retried(sites, "cascade")
    mine, unknown, _ = rows(sites["hq"], "child")
    assert mine[1:] == unknown[1:] == left[action]
    assert {row[2] for row in rows(sites["hq"], "parent")} == {note}
    [(table, method, decision, reason, result)] = records(sites)
    assert (table, method, decision) == ("parent", "cascade", "site_wins")
    assert "child (11,1,a)" in str(reason)
    assert result == ({"id": "3"} if change is KEY else {"code": "c"})


def test_row_that_follows_is_no_conflict(sites: Directory) -> None:
    family(sites, "ON UPDATE CASCADE")
    unknown_child(sites)
    run_each(sites["jfk"], KEY, "UPDATE parent SET code = 'c' WHERE id = 3")
    assert deferred.push(sites["jfk"]).errors == 0
    assert rows(sites["hq"], "child")[1] == (11, 3, "c")


def test_row_below_one_that_follows(sites: Directory) -> None:
    """It refers to what the row between takes over from its parent."""
    family(sites, "ON UPDATE CASCADE")
    run(
        sites["hq"],
        "ALTER TABLE child ADD UNIQUE (parent)",
        "CREATE TABLE toy (child int REFERENCES child (parent) ON UPDATE SET NULL)",
        "INSERT INTO toy VALUES (1)",
    )
    run(sites["jfk"], KEY)
    assert deferred.push(sites["jfk"]).errors == 1
    assert "toy (1)" in parked(sites)
    assert run(sites["hq"], "SELECT child FROM toy") == [(1,)]


def test_row_below_one_that_loses_its_parent(sites: Directory) -> None:
    """ON DELETE takes a reference away, to which another one refers in turn."""
    family(sites, "ON DELETE SET NULL")
    run(
        sites["hq"],
        "ALTER TABLE child ADD UNIQUE (parent)",
        "CREATE TABLE toy (child int REFERENCES child (parent) ON UPDATE SET NULL)",
    )
    run_everywhere(sites, "DELETE FROM child WHERE id = 10")
    unknown_child(sites)
    run(sites["hq"], "INSERT INTO toy VALUES (1)")
    run(sites["jfk"], "DELETE FROM parent WHERE id = 1")
    assert deferred.push(sites["jfk"]).errors == 1
    assert "toy (1)" in parked(sites)


def test_reference_that_changed_meanwhile(sites: Directory) -> None:
    family(sites, "ON UPDATE SET NULL")
    as_refresh(sites["hq"], "UPDATE child SET parent = 1 WHERE id = 20")
    run(sites["jfk"], KEY)
    assert deferred.push(sites["jfk"]).errors == 1
    assert "child (20,1,b)" in parked(sites)
    assert [row[1] for row in rows(sites["hq"], "child")] == [1, 1]


def test_reference_that_a_rule_has_just_kept(sites: Directory) -> None:
    family(sites, "ON UPDATE SET NULL")
    rules.set_column_group(sites["hq"], "child", "all", ["parent", "code"])
    rules.add_update_resolution(sites["hq"], "child", "all", "discard")
    as_refresh(sites["hq"], "UPDATE child SET code = 'b' WHERE id = 10")
    run(sites["jfk"], KEY)
    assert deferred.push(sites["jfk"]).errors == 1
    assert rows(sites["hq"], "child")[0] == (10, 1, "b")


@pytest.mark.parametrize("method", ["restore", "ignore"])
def test_change_that_a_rule_drops(sites: Directory, method: str) -> None:
    family(sites, "ON UPDATE SET NULL")
    unknown_child(sites)
    run(sites["jfk"], KEY)
    assert deferred.push(sites["jfk"]).errors == 1
    retried(sites, method)
    assert rows(sites["hq"], "parent")[1][0] == 1
    assert rows(sites["hq"], "child")[1] == (11, 1, "a")


@pytest.mark.parametrize("action", ["CASCADE", "SET NULL"])
def test_row_that_is_deleted_and_inserted_again(sites: Directory, action: str) -> None:
    family(sites, f"ON DELETE {action}")
    run_everywhere(sites, "DELETE FROM child WHERE id = 10")
    unknown_child(sites)
    run(
        sites["jfk"],
        "DELETE FROM parent WHERE id = 1",
        "INSERT INTO parent VALUES (1, 'a', 'anew')",
    )
    assert deferred.push(sites["jfk"]).errors == 1
    assert "child (11,1,a)" in parked(sites)
    assert rows(sites["hq"], "child")[0] == (11, 1, "a")
    retried(sites, "cascade")
    assert rows(sites["hq"], "parent")[1] == (1, "a", "anew")
    gone = {"CASCADE": [], "SET NULL": [(11, None, None)]}
    assert rows(sites["hq"], "child") == [*gone[action], (20, 2, "b")]


def test_child_that_is_deleted_and_inserted_again_too(sites: Directory) -> None:
    family(sites, "ON DELETE CASCADE")
    run(
        sites["jfk"],
        "DELETE FROM parent WHERE id = 1",
        "INSERT INTO parent VALUES (1, 'a', 'anew')",
        "INSERT INTO child VALUES (10, 1, 'z')",
    )
    assert deferred.push(sites["jfk"]).errors == 0
    assert rows(sites["hq"], "parent")[1] == (1, "a", "anew")
    assert rows(sites["hq"], "child")[0] == (10, 1, "z")


def test_child_that_comes_back_as_it_was(sites: Directory) -> None:
    """Nothing is sent of it, so the master cannot know it from one of others."""
    family(sites, "ON DELETE CASCADE")
    run(
        sites["jfk"],
        "DELETE FROM parent WHERE id = 1",
        "INSERT INTO parent VALUES (1, 'a', 'anew')",
        "INSERT INTO child VALUES (10, 1, 'a')",
    )
    assert deferred.push(sites["jfk"]).errors == 1
    assert "child (10,1,a)" in parked(sites)
    assert rows(sites["hq"], "child")[0] == (10, 1, "a")


def test_row_that_is_replaced_in_its_place(sites: Directory) -> None:
    """A child moves to it, so that it cannot be deleted first: it gets another code."""
    family(sites, "ON DELETE CASCADE ON UPDATE SET NULL")
    unknown_child(sites)
    run(
        sites["jfk"],
        "DELETE FROM parent WHERE id = 1",
        "INSERT INTO parent VALUES (1, 'c', 'anew')",
        "UPDATE child SET parent = 1, code = 'c' WHERE id = 20",
    )
    assert deferred.push(sites["jfk"]).errors == 1
    assert "child (11,1,a)" in parked(sites)
    retried(sites, "cascade")
    assert rows(sites["hq"], "child") == [(11, 1, None), (20, 1, "c")]


def test_synchronous_change(sites: Directory) -> None:
    family(sites, "ON UPDATE SET NULL", synchronous=True)
    unknown_child(sites)
    with synchronous.begin(sites["jfk"]) as connection:
        with pytest.raises(SynchronousConflict):
            connection.execute(text("UPDATE public.parent SET code = 'c' WHERE id = 1"))
        connection.rollback()
    assert rows(sites["hq"], "child")[1] == (11, 1, "a")
