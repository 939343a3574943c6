"""Parts of a table without triggers of ours, and triggers that are not always on.

Where our user may create no event trigger, parts that come later have none.
"""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

import deferred
import masters
import snapshots
from deferred.errors import ChangesNotQueued
from sites import Directory, Site
from sites.errors import RecordedAlready
from snaptide.doctor import examine
from tests.fix_sites import log, unarmed
from tests.linked_table import application, rows, run
from tests.stories import assert_equal_to_master, refresh

pytestmark = pytest.mark.usefixtures("spark")

PARTITIONED = (
    "CREATE TABLE t (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
    "CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (10)",
)
INHERITED = ("CREATE TABLE t (id int PRIMARY KEY, v text)",)
LATER = {
    "created": (
        PARTITIONED,
        ("CREATE TABLE late PARTITION OF t FOR VALUES FROM (10) TO (20)",),
    ),
    "attached": (
        PARTITIONED,
        (
            "CREATE TABLE late (v text, id int PRIMARY KEY)",
            "ALTER TABLE t ATTACH PARTITION late FOR VALUES FROM (10) TO (20)",
        ),
    ),
    "inherits": (
        INHERITED,
        ("CREATE TABLE late (PRIMARY KEY (id)) INHERITS (t)",),
    ),
}


@pytest.fixture(params=LATER)
def jfk(request: pytest.FixtureRequest, sites: Directory) -> Site:
    """A site with a snapshot of a table that has got a part since the last refresh."""
    made, later = LATER[request.param]
    hq, site = sites["hq"], sites["jfk"]
    run(hq, *made, "INSERT INTO t VALUES (1, 'a'), (2, 'a')")
    log(hq, "t")
    snapshots.create(site, "t", master="hq", updatable=True)
    refresh(site, "t")
    unarmed(hq)
    run(hq, *later)
    return site


def test_statements_on_a_part_that_came_later(sites: Directory, jfk: Site) -> None:
    hq = sites["hq"]
    run(hq, "INSERT INTO late (id, v) VALUES (11, 'a'), (12, 'a')")
    assert refresh(jfk, "t")["t"].method == "fast"
    assert_equal_to_master(jfk)
    run(
        hq,
        "UPDATE late SET v = 'b' WHERE id = 11",
        "DELETE FROM late WHERE id = 12",
        "INSERT INTO late (id, v) VALUES (13, 'b')",
        "UPDATE t SET v = 'b' WHERE id = 1",
    )
    assert refresh(jfk, "t")["t"].window_keys == 4
    assert_equal_to_master(jfk)
    assert refresh(jfk, "t")["t"].window_keys == 0


def test_a_repaired_log_records_the_part_from_then_on(
    sites: Directory, jfk: Site
) -> None:
    """No snapshot has seen the part yet, so none needs to be compared in full."""
    hq = sites["hq"]
    run(hq, "INSERT INTO late (id, v) VALUES (11, 'a'), (12, 'a')")
    assert [one.parts for one in masters.repair_snapshot_logs(hq)] == [("late",)]
    assert masters.show_snapshot_log(hq, "t").arms_parts
    run(hq, "UPDATE late SET v = 'b' WHERE id = 11")
    assert refresh(jfk, "t")["t"].method == "fast"
    assert_equal_to_master(jfk)
    run(
        hq,
        *(
            f"DROP TRIGGER snaptide_mlog_{event} ON late"
            for event in ("insert", "update", "delete", "truncate")
        ),
        "DELETE FROM late WHERE id = 12",
    )
    masters.repair_snapshot_logs(hq, "t")
    assert refresh(jfk, "t")["t"].method == "complete"
    assert_equal_to_master(jfk)


def test_users_write_to_the_part_just_then(sites: Directory, jfk: Site) -> None:
    """The refresh compares all rows, and so does the next one."""
    hq = sites["hq"]
    with application(hq) as user:
        user.execute("INSERT INTO public.late (id, v) VALUES (11, 'a')")
        assert refresh(jfk, "t")["t"].method == "complete"
        user.commit()
    run(hq, "DELETE FROM late", "INSERT INTO late (id, v) VALUES (12, 'a')")
    assert refresh(jfk, "t")["t"].method == "complete"
    assert_equal_to_master(jfk)
    assert refresh(jfk, "t")["t"].method == "fast"


def test_a_table_that_becomes_a_partition_of_its_successor(sites: Directory) -> None:
    """As administrators divide a large table: what there is becomes the first part."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, "CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1)")
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    refresh(jfk, "t")
    run(hq, "UPDATE t SET v = 'before'")
    run(
        hq,
        "ALTER TABLE t RENAME TO former",
        "CREATE TABLE t (v text, id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "ALTER TABLE t ATTACH PARTITION former FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE next PARTITION OF t FOR VALUES FROM (10) TO (20)",
        "INSERT INTO t (id, v) VALUES (2, 'after'), (12, 'after')",
    )
    run(jfk, "INSERT INTO t VALUES (3, 'jfk'), (13, 'jfk')")
    deferred.push(jfk)
    assert refresh(jfk, "t")["t"].method == "complete"
    assert_equal_to_master(jfk)
    refresh(jfk, "t")  # users may have written until the log was whole
    run(hq, "UPDATE t SET v = 'on'", "DELETE FROM former WHERE id = 1")
    run(hq, "UPDATE next SET v = 'directly' WHERE id = 12")
    assert refresh(jfk, "t")["t"].method == "fast"
    assert_equal_to_master(jfk)
    assert [one.subject for one in examine(hq) if one.subject != "fsync"] == []


@pytest.mark.parametrize(
    "mode",
    [
        "DISABLE TRIGGER ALL",
        "ENABLE TRIGGER ALL",
        "ENABLE REPLICA TRIGGER snaptide_mlog_insert",
        "DISABLE TRIGGER snaptide_mlog_replica",
    ],
)
def test_triggers_that_are_not_always_on(sites: Directory, mode: str) -> None:
    """They are from the next refresh on, and every snapshot is compared in full."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, *PARTITIONED, "INSERT INTO t VALUES (1, 'a'), (2, 'a')")
    log(hq, "t")
    for name in ("t", "t2"):
        snapshots.create(jfk, name, master="hq", table="t")
        refresh(jfk, name)
    run(
        hq,
        f"ALTER TABLE low {mode}",
        "INSERT INTO low VALUES (3, 'unseen')",
    )
    assert refresh(jfk, "t")["t"].method == "complete"
    assert not [one for one in examine(hq) if one.severity == "error"]
    run(hq, "UPDATE low SET v = 'seen' WHERE id = 3")
    assert refresh(jfk, "t")["t"].method == "fast"
    # It has not seen that the triggers were off.
    assert refresh(jfk, "t2")["t2"].method == "complete"
    assert refresh(jfk, "t2")["t2"].method == "fast"
    for name in ("t", "t2"):
        assert rows(jfk, name) == rows(hq, "t")


def test_two_repairs_at_once(sites: Directory) -> None:
    run(sites["hq"], "CREATE TABLE public.alone (id int PRIMARY KEY)")
    log(sites["hq"], "alone")
    with ThreadPoolExecutor(2) as pool:
        for _ in range(5):
            together = Barrier(2)

            def repair(together: Barrier = together) -> None:
                together.wait()
                masters.repair_snapshot_logs(sites["hq"])

            for one in [pool.submit(repair) for _ in range(2)]:
                one.result()


def test_a_partition_of_another_logged_table(sites: Directory) -> None:
    """Its triggers go on recording for the table that it has left."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, *PARTITIONED)
    run(hq, "CREATE TABLE o (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)")
    log(hq, "t", "o")
    snapshots.create(jfk, "o", master="hq")
    refresh(jfk, "o")
    run(hq, "ALTER TABLE t DETACH PARTITION low")
    run(hq, "ALTER TABLE o ATTACH PARTITION low FOR VALUES FROM (0) TO (10)")
    with pytest.raises(RecordedAlready, match="already recorded"):
        refresh(jfk, "o")


@pytest.mark.parametrize("mode", ["DISABLE", "ENABLE"])
def test_a_push_of_changes_that_nothing_queues(sites: Directory, mode: str) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, *INHERITED, "INSERT INTO t VALUES (1, 'a'), (2, 'a')")
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    refresh(jfk, "t")
    run(
        jfk,
        "UPDATE t SET v = 'queued' WHERE id = 1",
        f'ALTER TABLE "snap$_t" {mode} TRIGGER ALL',
    )
    for push in (deferred.push, lambda site: snapshots.refresh(site, "t")):
        with pytest.raises(ChangesNotQueued, match="Changes of t are not") as told:
            push(jfk)
    [told_too] = deferred.list_destinations(jfk)
    assert "are not queued" in str(told_too.last_error)
    run(jfk, *told.value.message.partition("Run: ")[2].split("; "))
    assert deferred.push(jfk).transactions == 1
    refresh(jfk, "t")
    assert_equal_to_master(jfk)
