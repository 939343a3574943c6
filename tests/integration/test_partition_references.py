"""Foreign keys that refer to one partition act on rows of a table that is pushed."""

from __future__ import annotations

import pytest

import deferred
import snapshots
from sites import Directory
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import parked, run
from tests.stories import refresh

pytestmark = pytest.mark.usefixtures("spark")

PARENT = """
CREATE TABLE parent (id int PRIMARY KEY, note text) PARTITION BY RANGE (id);
CREATE TABLE low (note text, id int NOT NULL);
ALTER TABLE parent ATTACH PARTITION low FOR VALUES FROM (0) TO (100);
INSERT INTO parent VALUES (1, 'a'), (2, 'b');
"""


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    run(sites["hq"], PARENT)
    log(sites["hq"], "parent")
    snapshots.create(sites["jfk"], "parent", master="hq", updatable=True)
    refresh(sites["jfk"], "parent")


@pytest.mark.parametrize("action", ["CASCADE", "SET NULL"])
@pytest.mark.parametrize(
    "change",
    ["DELETE FROM parent WHERE id = 1", "UPDATE parent SET id = 5 WHERE id = 1"],
)
def test_rows_that_refer_to_a_partition_are_not_changed_unseen(hq, jfk, action, change):
    run(
        hq,
        "CREATE TABLE child (id int PRIMARY KEY, p int REFERENCES low (id)"
        f" ON DELETE {action} ON UPDATE SET NULL)",
        "INSERT INTO child VALUES (10, 1)",
    )
    run(jfk, change)
    assert deferred.push(jfk).errors == 1
    assert len(parked(hq)) == 1
    assert run(hq, "SELECT * FROM child") == [(10, 1)]


def test_rows_that_refer_to_a_partition_follow_a_changed_key(hq, jfk):
    run(
        hq,
        "CREATE TABLE child (id int PRIMARY KEY, p int REFERENCES low (id)"
        " ON UPDATE CASCADE)",
        "INSERT INTO child VALUES (10, 1)",
    )
    run(jfk, "UPDATE parent SET id = 5 WHERE id = 1")
    assert deferred.push(jfk).errors == 0
    assert run(hq, "SELECT * FROM child") == [(10, 5)]


def test_transactions_whose_rows_meet_below_a_partition_are_not_compiled(hq, jfk):
    """The delete of one takes a row along that the next one changes."""
    run(
        hq,
        "CREATE TABLE child (id int PRIMARY KEY, p int, note text)",
        "INSERT INTO child VALUES (10, 1, '')",
    )
    log(hq, "child")
    snapshots.create(jfk, "child", master="hq", updatable=True)
    refresh(jfk, "child")
    key = "FOREIGN KEY (p) REFERENCES low (id) ON DELETE CASCADE"
    run(hq, f"ALTER TABLE child ADD {key}")
    run(jfk, "UPDATE child SET p = 2 WHERE id = 10")
    run(jfk, "DELETE FROM parent WHERE id = 1")
    run(jfk, "UPDATE child SET note = 'jfk' WHERE id = 10")
    assert deferred.push(jfk).errors == 0
    assert run(hq, "SELECT * FROM child") == [(10, 2, "jfk")]
