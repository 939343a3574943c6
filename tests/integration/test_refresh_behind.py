"""One snapshot that cannot be refreshed does not stop the others of its group."""

from typing import Any

import pytest

import masters
import snapshots
from deferred.errors import TargetColumnsMoved
from masters.errors import UnknownColumn
from sites import Directory, Site
from sites.errors import UnknownTable
from snapshots.errors import ColumnGone
from snaptide import migrate
from tests.fix_commands import Snaptide
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import run, scalar
from tests.processes import kill
from tests.stories import assert_equal_to_master, refresh, settle

pytestmark = pytest.mark.usefixtures("spark")

#: By snapshot, the moment that its master keeps its log for.
REGISTERED = "SELECT snapshot, position::text FROM snaptide.registered_snapshot"

#: By snapshot, the moment that it shows if it is behind, and the code of the reason.
BEHIND = (
    "SELECT name, position::text, behind->>'code' FROM snaptide.snapshot"
    " WHERE behind IS NOT NULL ORDER BY name"
)

#: How many rows the logs of the master tables have.
LOGGED = " UNION ALL ".join(
    f"SELECT '{name}', count(*) FROM snaptide.\"mlog$_{name}\""
    for name in ("airline", "flight", "note")
)

RENAME = "ALTER TABLE airline RENAME name TO title"

#: Another table takes the place of notes, so that no number says which column was body.
REPLACE = (
    "ALTER TABLE note RENAME TO old_note",
    "CREATE TABLE note (id int PRIMARY KEY, about text)",
)
PUT_BACK = ("DROP TABLE note", "ALTER TABLE old_note RENAME TO note")


def make_airport(sites: Directory) -> None:
    """Flights of airlines, and notes that have nothing to do with them."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE airline (id serial PRIMARY KEY, name text)",
        "CREATE TABLE flight (id int PRIMARY KEY, gate text,"
        " airline_id int REFERENCES airline ON DELETE CASCADE)",
        "CREATE TABLE note (id serial PRIMARY KEY, body text, about text)",
        "INSERT INTO airline SELECT g, 'line ' || g FROM generate_series(1, 5) g",
        "INSERT INTO flight SELECT g, 'A' || g, g FROM generate_series(1, 5) g",
        "INSERT INTO note SELECT g, 'a', 'b' FROM generate_series(1, 5) g",
    )
    log(hq, "airline", "flight", "note")
    for name in ("airline", "flight", "note"):
        snapshots.create(jfk, name, master="hq", group="airport", updatable=True)
    refresh(jfk, "airport")


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    make_airport(sites)


def change_all(hq: Site, name: str = "title") -> None:
    """Change a row of each table, remove one and add one."""
    run(
        hq,
        f"UPDATE airline SET {name} = 'new' WHERE id = 1",
        "DELETE FROM airline WHERE id = 2",
        f"INSERT INTO airline (id, {name}) VALUES (6, 'six')",
        "INSERT INTO flight VALUES (6, 'A6', 6)",
        "UPDATE flight SET gate = 'B1' WHERE id = 1",
        "UPDATE note SET body = 'new' WHERE id = 1",
        "DELETE FROM note WHERE id = 2",
        "INSERT INTO note VALUES (6, 'six', 'b')",
    )


def shown(jfk: Site) -> str:
    """The moment of the master that the group shows."""
    found: str = scalar(jfk, "SELECT position::text FROM snaptide.refresh_group")
    return found


def contents(site: Site, *tables: str) -> list[Any]:
    return [run(site, f"SELECT * FROM {one} ORDER BY id") for one in tables]


def test_others_show_a_new_moment_and_what_depends_waits_with_it(hq, jfk):
    before, old = shown(jfk), contents(jfk, "airline", "flight")
    run(hq, RENAME)
    change_all(hq)
    report = snapshots.refresh(jfk, "airport")
    assert [(one.name, one.method) for one in report.snapshots] == [("note", "fast")]
    told = [(one.name, one.code, one.depends_on) for one in report.behind]
    assert told == [("airline", "SNP-214", None), ("flight", "SNP-214", "airline")]
    assert "no longer has the column name" in report.behind[0].why
    assert report.behind[0].hint == ColumnGone.hint
    assert {one.position for one in report.behind} == {before}
    assert contents(jfk, "note") == contents(hq, "note")
    assert contents(jfk, "airline", "flight") == old
    assert shown(jfk) == report.position != before
    behind = [("airline", before, "SNP-214"), ("flight", before, "SNP-214")]
    assert run(jfk, BEHIND) == behind
    assert dict(run(hq, REGISTERED)) == {
        "airline": before,
        "flight": before,
        "note": report.position,
    }
    # As long as it is so, refreshes look whether it has ended: none is cut short.
    again = snapshots.refresh(jfk, "airport")
    assert [one.name for one in again.snapshots] == ["note"]
    assert run(jfk, BEHIND) == behind


def test_they_come_along_again_from_their_own_moment(hq, jfk):
    run(hq, RENAME)
    change_all(hq)
    snapshots.refresh(jfk, "airport")
    run(hq, "UPDATE note SET body = 'newer' WHERE id = 3")
    snapshots.refresh(jfk, "airport")
    masters.purge_snapshot_logs(hq)
    # Only the notes are where the group is: the other logs are still needed.
    assert dict(run(hq, LOGGED)) == {"airline": 3, "flight": 3, "note": 0}
    snapshots.alter_columns(jfk, "airline", rename={"name": "title"})
    run(hq, "UPDATE airline SET title = 'newest' WHERE id = 3")
    report = snapshots.refresh(jfk, "airport")
    methods = {one.name: one.method for one in report.snapshots}
    assert methods == {"airline": "fast", "flight": "fast", "note": "fast"}
    assert report.behind == ()
    assert_equal_to_master(jfk)
    assert run(jfk, BEHIND) == []
    positions = "SELECT position FROM snaptide.snapshot WHERE position IS NOT NULL"
    assert run(jfk, positions) == []
    assert run(jfk, "SELECT last_error FROM snaptide.refresh_group") == [(None,)]
    assert set(dict(run(hq, REGISTERED)).values()) == {report.position}
    masters.purge_snapshot_logs(hq)
    assert set(dict(run(hq, LOGGED)).values()) == {0}
    position = shown(jfk)
    snapshots.refresh(jfk, "airport")
    assert shown(jfk) == position, "the refresh was not cut short"


def test_a_parent_waits_for_its_child(hq, jfk):
    """It would lose rows that the child refers to, and take these along."""
    old = contents(jfk, "airline", "flight")
    run(hq, "ALTER TABLE flight RENAME gate TO door")
    run(
        hq,
        "DELETE FROM airline WHERE id = 2",
        "UPDATE note SET body = 'new' WHERE id = 1",
    )
    report = snapshots.refresh(jfk, "airport")
    told = [(one.name, one.depends_on) for one in report.behind]
    assert told == [("flight", None), ("airline", "flight")]
    assert contents(jfk, "airline", "flight") == old
    assert contents(jfk, "note") == contents(hq, "note")
    run(hq, "ALTER TABLE flight RENAME door TO gate")
    snapshots.refresh(jfk, "airport")
    assert_equal_to_master(jfk)


def test_strict_changes_none(hq, jfk):
    before, old = shown(jfk), contents(jfk, "airline", "flight", "note")
    run(hq, RENAME)
    change_all(hq)
    with pytest.raises(ColumnGone, match="no longer has the column name"):
        snapshots.refresh(jfk, "airport", strict=True)
    assert contents(jfk, "airline", "flight", "note") == old
    assert (shown(jfk), run(jfk, BEHIND)) == (before, [])
    # It also takes along again what another one has left behind, or fails.
    snapshots.refresh(jfk, "airport")
    with pytest.raises(ColumnGone):
        snapshots.refresh(jfk, "airport", strict=True)
    assert len(run(jfk, BEHIND)) == 2
    snapshots.alter_columns(jfk, "airline", rename={"name": "title"})
    snapshots.refresh(jfk, "airport", strict=True)
    assert_equal_to_master(jfk)


def test_nothing_is_left_behind_if_nothing_could_go_on(hq, jfk):
    before = shown(jfk)
    run(hq, RENAME, "ALTER TABLE note RENAME body TO text")
    with pytest.raises(ColumnGone, match=r"no longer has the column (name|body)"):
        snapshots.refresh(jfk, "airport")
    assert (shown(jfk), run(jfk, BEHIND)) == (before, [])
    assert "SNP-214" in scalar(jfk, "SELECT last_error FROM snaptide.refresh_group")


def test_a_dropped_master_table(hq, jfk):
    old = contents(jfk, "note")
    run(hq, "DROP TABLE note")
    run(hq, "UPDATE airline SET name = 'new' WHERE id = 1")
    report = snapshots.refresh(jfk, "airport")
    [left] = report.behind
    assert (left.name, left.code) == ("note", UnknownTable.code)
    assert "drop the snapshot" in left.hint
    assert contents(jfk, "airline") == contents(hq, "airline")
    assert contents(jfk, "note") == old
    with pytest.raises(UnknownTable):
        snapshots.refresh(jfk, "airport", strict=True)
    snapshots.drop(jfk, "note", force=True)
    assert snapshots.refresh(jfk, "airport").behind == ()


def test_changes_made_for_other_columns_are_found_last(hq, jfk):
    """The rows of all have been read and compared by then."""
    run(jfk, "UPDATE note SET body = 'mine' WHERE id = 1")
    run(
        hq,
        "ALTER TABLE note RENAME body TO x",
        "ALTER TABLE note RENAME about TO body",
        "ALTER TABLE note RENAME x TO about",
        "UPDATE airline SET name = 'new' WHERE id = 1",
    )
    report = snapshots.refresh(jfk, "airport", push_deferred_rpc=False)
    [left] = report.behind
    assert (left.name, left.code) == ("note", TargetColumnsMoved.code)
    assert contents(jfk, "airline") == contents(hq, "airline")
    snapshots.alter_columns(jfk, "note", rename={"body": "about", "about": "body"})
    settle(jfk)
    assert_equal_to_master(jfk)
    assert run(hq, "SELECT about FROM note WHERE id = 1") == [("mine",)]


def test_changes_of_users_of_one_that_stays_behind(hq, jfk):
    """They are pushed, and shown as theirs until a refresh has seen the answer."""
    run(hq, RENAME)
    run(
        jfk,
        "UPDATE flight SET gate = 'mine' WHERE id = 1",
        "UPDATE note SET about = 'my' WHERE id = 1",
    )
    run(hq, "UPDATE flight SET gate = 'theirs' WHERE id = 3")
    report = snapshots.refresh(jfk, "airport")
    assert report.pushed is not None
    assert report.pushed.transactions == 1
    assert [one.name for one in report.snapshots] == ["note"]
    pending = 'SELECT k1 FROM snaptide."uslog$_flight"'
    assert run(jfk, pending) == [(1,)], "its answer is covered by no refresh yet"
    assert run(jfk, "SELECT gate FROM flight WHERE id IN (1, 3) ORDER BY id") == [
        ("mine",),
        ("A3",),
    ]
    snapshots.alter_columns(jfk, "airline", rename={"name": "title"})
    settle(jfk)
    assert_equal_to_master(jfk)
    assert run(jfk, "SELECT gate FROM flight WHERE id IN (1, 3) ORDER BY id") == [
        ("mine",),
        ("theirs",),
    ]


def test_a_push_that_is_refused_stops_only_what_waits(hq, jfk):
    """Flights wait in the same queue, and airlines have to show their moment."""
    snapshots.create(jfk, "lines", table="airline", master="hq", group="other")
    refresh(jfk, "other")
    run(hq, *REPLACE)
    run(jfk, "UPDATE note SET body = 'mine' WHERE id = 1")
    run(hq, "UPDATE airline SET name = 'new' WHERE id = 1")
    before, old = shown(jfk), contents(jfk, "note", "flight", "airline")
    report = snapshots.refresh(jfk, "airport")
    assert (report.pushed, [one.name for one in report.snapshots]) == (
        None,
        ["airline", "flight"],
    )
    [left] = report.behind
    assert (left.name, left.code, left.hint) == (
        "note",
        UnknownColumn.code,
        ColumnGone.hint,
    )
    assert report.not_pushed == f"{left.code} {left.why}"
    assert contents(jfk, "airline") == contents(hq, "airline")
    assert contents(jfk, "note") == old[:1]

    run(
        jfk,
        "INSERT INTO airline VALUES (7, 'seven')",
        "INSERT INTO flight VALUES (7, 'A7', 7)",
    )
    run(hq, "UPDATE flight SET gate = 'theirs' WHERE id = 3")
    old = contents(jfk, "note", "flight", "airline")
    with pytest.raises(UnknownColumn, match="no longer has the column body"):
        snapshots.refresh(jfk, "airport")
    with pytest.raises(UnknownColumn):
        snapshots.refresh(jfk, "airport", strict=True)
    assert contents(jfk, "note", "flight", "airline") == old

    # The other group has nothing that waits for this master, and goes on.
    report = snapshots.refresh(jfk, "other")
    assert report.behind == ()
    assert "SNP-131" in str(report.not_pushed)
    assert contents(jfk, "lines") == contents(hq, "airline")
    run(hq, *PUT_BACK)
    settle(jfk)
    assert_equal_to_master(jfk)
    assert run(hq, "SELECT body FROM note WHERE id = 1") == [("mine",)]
    assert shown(jfk) != before


def test_a_queue_of_the_push_that_was_refused_waits_with_its_parents(hq, jfk):
    run(
        hq,
        "CREATE TABLE crew (id int PRIMARY KEY)",
        "INSERT INTO crew VALUES (1)",
    )
    log(hq, "crew")
    snapshots.create(jfk, "crew", master="hq", group="airport")
    refresh(jfk, "airport")
    run(hq, *REPLACE, "INSERT INTO crew VALUES (2)")
    run(
        jfk,
        "UPDATE note SET body = 'mine' WHERE id = 1",
        "UPDATE flight SET gate = 'mine' WHERE id = 1",
    )
    report = snapshots.refresh(jfk, "airport")
    assert [one.name for one in report.snapshots] == ["crew"]
    told = {one.name: (one.code, one.depends_on) for one in report.behind}
    assert told == {
        "note": ("SNP-131", None),
        "flight": ("SNP-131", None),
        "airline": ("SNP-131", "flight"),
    }
    assert contents(jfk, "crew") == contents(hq, "crew")
    run(hq, *PUT_BACK)
    settle(jfk)
    assert run(jfk, BEHIND) == []
    assert_equal_to_master(jfk)


def test_after_a_repair_of_the_master_all_rows_are_compared(hq, jfk):
    """A position of before means nothing there; the group's is a new one."""
    run(hq, RENAME)
    change_all(hq)
    run(jfk, "UPDATE snaptide.refresh_group SET incarnation = gen_random_uuid()")
    refresh(jfk, "airport")
    assert len(run(jfk, BEHIND)) == 2
    snapshots.alter_columns(jfk, "airline", rename={"name": "title"})
    done = refresh(jfk, "airport")
    methods = {name: one.method for name, one in done.items()}
    assert methods == {"airline": "complete", "flight": "complete", "note": "fast"}
    assert_equal_to_master(jfk)


def test_after_a_while_with_the_version_before_all_rows_are_compared(hq, jfk):
    """It would take the group's moment for that of a snapshot that is behind."""
    run(hq, RENAME)
    change_all(hq)
    refresh(jfk, "airport")
    run(hq, "ALTER TABLE airline RENAME title TO name")
    migrate.downgrade(jfk, "0071")
    migrate.upgrade(jfk)
    done = refresh(jfk, "airport")
    methods = {name: one.method for name, one in done.items()}
    assert methods == {"airline": "complete", "flight": "complete", "note": "fast"}
    assert_equal_to_master(jfk)


def test_a_new_snapshot_waits_for_its_parent(hq, jfk):
    run(
        hq,
        "CREATE TABLE seat (id int PRIMARY KEY, flight_id int REFERENCES flight)",
        "INSERT INTO seat SELECT g, g FROM generate_series(1, 5) g",
        "CREATE TABLE crew (id int PRIMARY KEY)",
        "INSERT INTO crew VALUES (1)",
    )
    log(hq, "seat", "crew")
    for name in ("seat", "crew"):
        snapshots.create(jfk, name, master="hq", group="airport")
    run(hq, RENAME)
    report = snapshots.refresh(jfk, "airport")
    assert [one.name for one in report.snapshots] == ["crew", "note"]
    seat = next(one for one in report.behind if one.name == "seat")
    assert (seat.depends_on, seat.position) == ("airline", None)
    described = snapshots.describe_snapshot(jfk, "seat")
    assert (described.loaded, described.position) == (False, None)
    run(hq, "ALTER TABLE airline RENAME title TO name")
    snapshots.refresh(jfk, "airport")
    assert_equal_to_master(jfk)


def test_a_check_explains_rows_by_the_moment_that_each_shows(hq, jfk):
    run(hq, RENAME)
    change_all(hq)
    snapshots.refresh(jfk, "airport")
    run(hq, "ALTER TABLE airline RENAME title TO name")
    found = {one.name: one for one in snapshots.check(jfk, "airport").snapshots}
    assert found["airline"].counts
    assert found["flight"].counts
    assert not found["note"].counts
    assert all(one.unexplained == 0 and one.unproven is None for one in found.values())
    assert found["airline"].position == run(jfk, BEHIND)[0][1]
    assert found["note"].position == shown(jfk)


@pytest.mark.parametrize(
    ("point", "noted"),
    [
        ("refresh.after_window", 0),
        ("refresh.before_merge_commit", 0),
        ("refresh.after_merge", 2),
        ("refresh.before_advance", 2),
    ],
)
def test_killed_at(sites, point, noted):
    hq, jfk = sites["hq"], sites["jfk"]
    before, old = shown(jfk), contents(jfk, "airline", "flight", "note")
    run(hq, RENAME)
    change_all(hq)
    kill(VICTIM, sites, fault=f"{point}:kill", borrows_spark=True)
    assert len(run(jfk, BEHIND)) == noted
    assert contents(jfk, "airline", "flight") == old[:2]
    assert (contents(jfk, "note") == old[2:]) == (noted == 0)
    assert set(dict(run(hq, REGISTERED)).values()) == {before}
    masters.purge_snapshot_logs(hq)
    snapshots.refresh(jfk, "airport")
    assert contents(jfk, "note") == contents(hq, "note")
    snapshots.alter_columns(jfk, "airline", rename={"name": "title"})
    done = snapshots.refresh(jfk, "airport").snapshots
    assert {one.method for one in done} == {"fast"}
    assert_equal_to_master(jfk)


VICTIM = """
import snapshots
snapshots.refresh(sites["jfk"], "airport")
"""


def test_the_command_names_them(hq: Site, jfk: Site, snaptide: Snaptide) -> None:
    run(hq, RENAME)
    said = snaptide.said("refresh", "jfk", "airport", code=3)
    assert "airline stays behind: SNP-214 airline no longer has the column" in said
    assert "flight stays behind with airline." in said
    assert "snapshot alter SITE" in said
    snaptide.said("refresh", "jfk", "airport", "--strict", code=1)

    shown_by = {one.name: one for one in snapshots.list_snapshots(jfk)}
    assert shown_by["note"].position == shown(jfk)
    assert shown_by["note"].behind is None
    assert shown_by["airline"].position == run(jfk, BEHIND)[0][1]
    assert "SNP-214" in snaptide.said("snapshot", "show", "jfk", "airline")
    assert "stays behind" in snaptide.said("snapshot", "list", "jfk")
