"""Snapshots that are propagated synchronously, from the switch to the next refresh."""

from collections.abc import Callable

import pytest
from psycopg.errors import ObjectNotInPrerequisiteState
from sqlalchemy import text

import deferred
import masters
import snapshots
import synchronous
from masters import rules
from sites import Directory, Site
from snapshots.definitions.errors import UndeliveredCalls
from snapshots.reports import SnapshotReport
from synchronous.errors import SynchronousConflict
from tests.coordinated import left_over, quantities
from tests.fix_moments import Moments
from tests.fix_worlds import prepared_once
from tests.linked_table import run
from tests.stories import refresh, unsettled, user


@prepared_once("hq", "jfk", needs="spark")
def flights(sites: Directory) -> None:
    """A table and its updatable snapshot `flights`, loaded and synchronous."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE flights (id int PRIMARY KEY, qty int)",
        "INSERT INTO flights SELECT i, i FROM generate_series(1, 3) i",
    )
    masters.create_snapshot_log(hq, "flights")
    snapshots.create(jfk, "flights", master="hq", updatable=True)
    refresh(jfk, "flights")
    snapshots.alter_propagation(jfk, "flights", synchronous=True)


def change(sites: Directory, statement: str) -> None:
    with synchronous.begin(sites["jfk"]) as connection:
        connection.execute(text(statement))


def refreshed(site: Site) -> SnapshotReport:
    return refresh(site, "flights")["flights"]


def test_a14_15_a_conflict_fails_the_statement_and_leaves_no_deferred_rows(
    flights: Directory,
) -> None:
    hq, jfk = flights["hq"], flights["jfk"]
    run(hq, "UPDATE flights SET qty = 50 WHERE id = 1")

    with synchronous.begin(jfk) as connection:
        with pytest.raises(SynchronousConflict):
            connection.execute(text("UPDATE flights SET qty = 7 WHERE id = 1"))
        connection.rollback()

    assert quantities(jfk, "flights") == {1: 1, 2: 2, 3: 3}
    assert quantities(hq, "flights") == {1: 50, 2: 2, 3: 3}
    assert left_over(flights) == {}
    assert refreshed(jfk).updated == 1
    change(flights, "UPDATE flights SET qty = 7 WHERE id = 1")
    assert quantities(hq, "flights")[1] == 7


def test_the_next_refresh_finds_nothing_to_do(flights: Directory) -> None:
    hq, jfk = flights["hq"], flights["jfk"]
    change(flights, "UPDATE flights SET qty = qty * 10")
    change(flights, "INSERT INTO flights VALUES (4, 4)")
    change(flights, "DELETE FROM flights WHERE id = 2")
    assert unsettled(jfk, "flights") != []

    report = refreshed(jfk)

    done = (report.inserted, report.updated, report.deleted, report.held_back)
    assert done == (0, 0, 0, 0)
    assert unsettled(jfk, "flights") == []
    assert quantities(hq, "flights") == quantities(jfk, "flights")


def test_what_the_master_makes_of_a_change_comes_back_with_the_next_refresh(
    flights: Directory,
) -> None:
    """Triggers and rules may change the row otherwise than asked, and other rows."""
    hq, jfk = flights["hq"], flights["jfk"]
    run(
        hq,
        "CREATE FUNCTION double() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN NEW.qty := NEW.qty * 2; RETURN NEW; END $$",
        "CREATE TRIGGER double BEFORE UPDATE ON flights FOR EACH ROW"
        " WHEN (NEW.id = 1) EXECUTE FUNCTION double()",
        "CREATE FUNCTION tally() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN UPDATE flights SET qty = qty + 1 WHERE id = 3; RETURN NULL; END $$",
        "CREATE TRIGGER tally AFTER UPDATE ON flights FOR EACH ROW"
        " WHEN (NEW.id < 3) EXECUTE FUNCTION tally()",
    )
    rules.set_column_group(hq, "flights", "amount", ["qty"])
    rules.add_update_resolution(hq, "flights", "amount", "additive")
    change(flights, "UPDATE flights SET qty = 10 WHERE id = 1")
    assert quantities(hq, "flights") == {1: 20, 2: 2, 3: 4}
    assert quantities(jfk, "flights") == {1: 10, 2: 2, 3: 3}
    run(hq, "UPDATE flights SET qty = 100 WHERE id = 2")
    change(flights, "UPDATE flights SET qty = 5 WHERE id = 2")

    assert refreshed(jfk).held_back == 0

    assert quantities(hq, "flights") == {1: 20, 2: 103, 3: 6}
    assert quantities(jfk, "flights") == {1: 20, 2: 103, 3: 6}
    assert unsettled(jfk, "flights") == []
    assert refreshed(jfk).updated == 0


def test_other_sites_see_the_change_with_their_next_refresh(
    make_sites: Callable[..., Directory], spark: object
) -> None:
    sites = make_sites("hq", "jfk", "lax")
    hq, jfk, lax = sites.values()
    run(
        hq,
        "CREATE TABLE flights (id int PRIMARY KEY, qty int)",
        "INSERT INTO flights SELECT i, i FROM generate_series(1, 3) i",
    )
    masters.create_snapshot_log(hq, "flights")
    for site in (jfk, lax):
        snapshots.create(site, "flights", master="hq", updatable=True)
        refresh(site, "flights")
    snapshots.alter_propagation(jfk, "flights", synchronous=True)

    change(sites, "UPDATE flights SET qty = 7 WHERE id = 1")
    change(sites, "INSERT INTO flights SELECT i, i FROM generate_series(4, 6) i")
    change(sites, "DELETE FROM flights WHERE id = 2")
    report = refreshed(lax)

    assert (report.inserted, report.updated, report.deleted) == (3, 1, 1)
    assert quantities(lax, "flights") == quantities(jfk, "flights")
    with user(lax) as session:
        session.execute("UPDATE flights SET qty = 8 WHERE id = 1")
        session.commit()
    deferred.push(lax)
    refresh(jfk, "flights")
    assert quantities(jfk, "flights")[1] == 8


def test_a_refresh_between_the_two_commits_takes_nothing_back(
    flights: Directory, moments: Moments
) -> None:
    hq, jfk = flights["hq"], flights["jfk"]
    seen: list[SnapshotReport] = []
    moments.at("synchronous.after_decision", lambda: seen.append(refreshed(jfk)))

    change(flights, "UPDATE flights SET qty = 10 WHERE id = 1")

    assert len(seen) == 1
    assert quantities(jfk, "flights")[1] == quantities(hq, "flights")[1] == 10
    assert refreshed(jfk).updated == 0
    assert unsettled(jfk, "flights") == []


def test_a_refresh_that_began_before_the_change_takes_nothing_back(
    flights: Directory, moments: Moments
) -> None:
    jfk = flights["jfk"]
    run(flights["hq"], "UPDATE flights SET qty = qty + 100")
    change_one = "UPDATE flights SET qty = 10 WHERE id = 1"
    run(flights["hq"], "UPDATE flights SET qty = 1 WHERE id = 1")
    moments.at("refresh.after_window", lambda: change(flights, change_one))

    report = refreshed(jfk)

    assert report.held_back + report.updated == 2 + report.held_back
    assert quantities(jfk, "flights") == {1: 10, 2: 102, 3: 103}
    assert refreshed(jfk).updated == 0
    assert unsettled(jfk, "flights") == []


def test_the_switch_pushes_what_is_queued_and_then_refuses_writes(
    flights: Directory,
) -> None:
    hq, jfk = flights["hq"], flights["jfk"]
    snapshots.alter_propagation(jfk, "flights", synchronous=False)
    with user(jfk) as session:
        session.execute("UPDATE flights SET qty = 7 WHERE id = 1")
        session.commit()
        report = snapshots.alter_propagation(jfk, "flights", synchronous=True)
        assert report.pushed == 1
        with pytest.raises(ObjectNotInPrerequisiteState, match="synchronously"):
            session.execute("UPDATE flights SET qty = 8 WHERE id = 1")

    assert quantities(hq, "flights")[1] == 7
    assert snapshots.describe_snapshot(jfk, "flights").synchronous


def test_the_switch_waits_for_an_open_writer(
    flights: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    jfk = flights["jfk"]
    snapshots.alter_propagation(jfk, "flights", synchronous=False)
    push = deferred.push

    with user(jfk) as session:
        session.execute("UPDATE flights SET qty = 7 WHERE id = 1")

        def pushed_meanwhile(*args: object) -> object:
            report = push(*args)  # type: ignore[arg-type]
            session.commit()
            return report

        monkeypatch.setattr(deferred, "push", pushed_meanwhile)
        snapshots.alter_propagation(jfk, "flights", synchronous=True)

    assert quantities(flights["hq"], "flights")[1] == 7
    assert left_over(flights) == {"transactions at jfk": 1, "calls at jfk": 1}


def test_a_destination_that_parks_everything_is_not_waited_for(
    flights: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    jfk = flights["jfk"]
    snapshots.alter_propagation(jfk, "flights", synchronous=False)

    def write_on(*args: object) -> object:
        report = push(*args)  # type: ignore[arg-type]
        run(jfk, "UPDATE flights SET qty = qty + 1 WHERE id = 1")
        return report

    push = deferred.push
    monkeypatch.setattr(deferred, "push", write_on)
    with pytest.raises(UndeliveredCalls):
        snapshots.alter_propagation(jfk, "flights", synchronous=True)

    assert not snapshots.describe_snapshot(jfk, "flights").synchronous
    run(jfk, "UPDATE flights SET qty = qty + 1 WHERE id = 1")


def test_a_master_that_cannot_prepare_is_refused_at_the_switch(
    flights: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    jfk = flights["jfk"]
    snapshots.alter_propagation(jfk, "flights", synchronous=False)
    run(
        flights["hq"],
        "CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN NOTIFY x; RETURN NULL; END $$",
        "CREATE TRIGGER telling AFTER UPDATE ON flights EXECUTE FUNCTION tell()",
    )
    report = snapshots.alter_propagation(jfk, "flights", synchronous=True)
    assert report.notifying == ("telling on public.flights",)
