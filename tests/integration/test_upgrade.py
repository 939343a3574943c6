"""Programs and schemas of different versions: what goes on, and what is said."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from celery import Celery
from sqlalchemy import text

import deferred
import groups
import snapshots
import synchronous
from sites import Directory, Site
from sites.errors import NewerSchema, OlderSchema, OtherSchema
from sites.sessions import revisions
from snaptide import beat, doctor, migrate
from snaptide.status import status_of
from tests.coordinated import left_over, quantities
from tests.fix_commands import Snaptide
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.grouped import GROUP, found_group, push_all
from tests.linked_table import (
    as_refresh,
    link,
    parked,
    queued,
    rows,
    run,
    run_everywhere,
    scalar,
)
from tests.stories import refresh, settle

#: The revisions before the one of this program.
LAST = sorted(revisions.known())[-4:-1]
NEWER = "9999"
#: Just too old for the other side of a contact.
TOO_OLD = f"{int(revisions.OLDEST_PARTNER) - 1:04}"

before_this_one = pytest.mark.parametrize("revision", LAST)


@prepared_once("hq", "jfk", needs="spark")
def flights(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE flights (id int PRIMARY KEY, seats int)",
        "INSERT INTO flights SELECT n, 100 FROM generate_series(1, 5) n",
    )
    log(hq, "flights")
    snapshots.create(jfk, "flights", master="hq", updatable=True)
    refresh(jfk, "flights")


@prepared_once("hq", "jfk")
def linked(sites: Directory) -> None:
    link(sites, synchronous=True)
    run_everywhere(sites, "INSERT INTO orders (id, qty) VALUES (1, 1), (2, 2)")


@prepared_once("hq", "lax")
def masters_of_group(sites: Directory) -> None:
    found_group(sites, "hq", "lax")


def test_the_page_names_the_oldest_revision_of_a_master() -> None:
    page = Path(__file__).parents[2] / "docs" / "howto" / "upgrade.md"
    assert f"from `{revisions.OLDEST_PARTNER}` on" in page.read_text("utf-8")


def call_it(site: Site, revision: str) -> None:
    """Give a schema the number of another revision, and nothing else of it."""
    run(site, f"UPDATE snaptide.alembic_version SET version_num = '{revision}'")


@before_this_one
def test_a_site_of_an_older_version_delivers_after_its_upgrade(
    flights: Directory, revision: str
) -> None:
    hq, jfk = flights["hq"], flights["jfk"]
    run(jfk, "UPDATE flights SET seats = 99 WHERE id = 1")
    migrate.downgrade(jfk, revision)
    run(jfk, "INSERT INTO flights VALUES (6, 60)", "DELETE FROM flights WHERE id = 2")
    run(jfk, "UPDATE flights SET seats = 98 WHERE id = 1")
    for contact in CONTACTS.values():
        with pytest.raises(OlderSchema, match=f"jfk is at {revision}") as told:
            contact(jfk)
        assert told.value.facts["needed"] == revisions.head()
    assert queued(jfk) == 3

    migrate.upgrade(jfk)
    assert queued(jfk) == 3
    assert deferred.push(jfk).transactions == 3
    settle(jfk)
    assert parked(hq) == []
    expected = [(1, 98), (3, 100), (4, 100), (5, 100), (6, 60)]
    assert rows(hq, "flights") == rows(jfk, "flights") == expected
    assert snapshots.check(jfk).equal


@before_this_one
def test_a_master_of_an_older_version_is_worked_with(
    flights: Directory, revision: str
) -> None:
    """What a contact needs at the other side is there from `OLDEST_PARTNER` on."""
    hq, jfk = flights["hq"], flights["jfk"]
    run(hq, "UPDATE flights SET seats = 50 WHERE id = 2")
    run(jfk, "UPDATE flights SET seats = 51 WHERE id = 2")
    run(jfk, "UPDATE flights SET seats = 99 WHERE id = 1")
    migrate.downgrade(hq, revision)
    if revision < revisions.OLDEST_PARTNER:
        with pytest.raises(OlderSchema, match=f"hq is at {revision}"):
            deferred.push(jfk)
        migrate.upgrade(hq)

    report = deferred.push(jfk)
    assert (report.transactions, report.errors) == (2, 1)
    run(hq, "INSERT INTO flights VALUES (6, 60)")
    refresh(jfk, "flights", refresh_after_errors=True)
    as_refresh(jfk, 'UPDATE "snap$_flights" SET seats = 1 WHERE id = 3')
    assert [one.unexplained for one in snapshots.check(jfk).snapshots] == [1]
    assert snapshots.rectify(jfk).mended == 1
    assert status_of(jfk).groups[0].lag is not None

    migrate.upgrade(hq)
    deferred.delete_errors(hq)
    settle(jfk)
    assert rows(hq, "flights") == rows(jfk, "flights")
    assert snapshots.check(jfk).equal


def _change_synchronously(jfk: Site) -> None:
    with synchronous.begin(jfk) as connection:
        connection.execute(text("UPDATE orders SET qty = 7 WHERE id = 1"))


CONTACTS: Mapping[str, Callable[[Site], object]] = {
    "push": deferred.push,
    "refresh": lambda jfk: snapshots.refresh(jfk, "flights"),
    "refresh alone": lambda jfk: refresh(jfk, "flights"),
    "check": snapshots.check,
    "rectify": snapshots.rectify,
}


@pytest.mark.parametrize(
    ("where", "revision", "error"),
    [
        ("hq", NEWER, NewerSchema),
        ("jfk", NEWER, NewerSchema),
        ("hq", TOO_OLD, OlderSchema),
    ],
)
def test_no_contact_guesses(
    flights: Directory, where: str, revision: str, error: type[OtherSchema]
) -> None:
    hq, jfk = flights["hq"], flights["jfk"]
    run(jfk, "UPDATE flights SET seats = 99 WHERE id = 1")
    call_it(flights[where], revision)
    for contact in CONTACTS.values():
        with pytest.raises(error, match=f"of site {where} is at {revision}") as told:
            contact(jfk)
        assert "\n" not in told.value.message
        assert told.value.facts["site"] == where
    assert queued(jfk) == 1
    assert rows(hq, "flights")[0] == (1, 100)
    if where == "hq":
        failed = "SELECT last_error FROM snaptide.destination"
        assert f"hq is at {revision}" in scalar(jfk, failed)

    call_it(flights[where], revisions.head())
    settle(jfk)
    assert rows(hq, "flights") == rows(jfk, "flights")
    assert rows(hq, "flights")[0] == (1, 99)


@pytest.mark.parametrize("where", ["hq", "jfk"])
def test_a_schema_that_lacks_what_a_contact_asks(
    flights: Directory, where: str
) -> None:
    """The question of who it is asks for more in the same statement."""
    jfk = flights["jfk"]
    table = "push_marker" if where == "hq" else "destination"
    run(flights[where], f"ALTER TABLE snaptide.{table} RENAME TO former_{table}")
    for revision, error in ((NEWER, NewerSchema), (TOO_OLD, OlderSchema)):
        call_it(flights[where], revision)
        for contact in (CONTACTS["push"], CONTACTS["refresh alone"]):
            with pytest.raises(error, match=f"of site {where} is at {revision}"):
                contact(jfk)


@before_this_one
def test_changes_go_synchronously_to_a_master_of_an_older_version(
    linked: Directory, revision: str
) -> None:
    hq, jfk = linked["hq"], linked["jfk"]
    migrate.downgrade(hq, revision)
    if revision < revisions.OLDEST_PARTNER:
        migrate.upgrade(hq)
    _change_synchronously(jfk)
    assert quantities(hq) == quantities(jfk) == {1: 7, 2: 2}
    synchronous.recover(jfk)
    assert left_over(linked) == {}


@pytest.mark.parametrize("where", ["hq", "jfk"])
def test_no_synchronous_change_guesses(linked: Directory, where: str) -> None:
    hq, jfk = linked["hq"], linked["jfk"]
    call_it(linked[where], NEWER)
    with pytest.raises(NewerSchema, match=f"of site {where} is at {NEWER}"):
        _change_synchronously(jfk)
    assert quantities(hq) == quantities(jfk) == {1: 1, 2: 2}
    call_it(linked[where], revisions.head())
    _change_synchronously(jfk)
    assert quantities(hq) == quantities(jfk) == {1: 7, 2: 2}


@before_this_one
def test_masters_of_a_group_are_upgraded_one_after_the_other(
    masters_of_group: Directory, revision: str
) -> None:
    hq, lax = masters_of_group["hq"], masters_of_group["lax"]
    run(lax, "INSERT INTO orders (id) VALUES (1)")
    migrate.downgrade(lax, revision)
    run(hq, "INSERT INTO orders (id) VALUES (2)")
    run(lax, "INSERT INTO orders (id) VALUES (3)")
    if revision >= revisions.OLDEST_PARTNER:
        assert deferred.push(hq, "lax").transactions == 1
    for verb in (
        lambda: deferred.push(lax, "hq"),
        lambda: groups.check(hq, GROUP),
        lambda: groups.suspend(hq, GROUP),
    ):
        with pytest.raises(OlderSchema, match=f"lax is at {revision}"):
            verb()
    migrate.upgrade(lax)
    push_all(masters_of_group)
    assert [row[0] for row in rows(hq)] == [row[0] for row in rows(lax)] == [1, 2, 3]
    assert groups.check(hq, GROUP).equal


def test_a_newer_master_of_a_group_is_left_alone(masters_of_group: Directory) -> None:
    hq, lax = masters_of_group["hq"], masters_of_group["lax"]
    run(hq, "INSERT INTO orders (id) VALUES (1)")
    call_it(lax, NEWER)
    for verb in (
        lambda: deferred.push(hq, "lax"),
        lambda: groups.check(hq, GROUP),
        lambda: groups.suspend(hq, GROUP),
    ):
        with pytest.raises(NewerSchema, match=f"lax is at {NEWER}"):
            verb()
    call_it(lax, revisions.head())
    push_all(masters_of_group)
    assert rows(hq) == rows(lax)


@pytest.mark.parametrize("revision", [LAST[-1], NEWER])
def test_status_health_and_doctor_say_it(
    sites: Directory, snaptide: Snaptide, revision: str
) -> None:
    jfk = sites["jfk"]
    if revision == NEWER:
        call_it(jfk, revision)
    else:
        migrate.downgrade(jfk, revision)
    said = f"schema of site jfk is at {revision}"
    assert said in (status_of(jfk).error or "")
    assert said in snaptide.report("status", "jfk", code=3)[0]["error"]
    assert said in snaptide.report("health", "jfk", code=3)[0]["what"]
    (found,) = doctor.examine(jfk)
    assert found.subject == "schema"
    assert revision in found.what


def test_doctor_says_it_of_a_master(flights: Directory) -> None:
    call_it(flights["hq"], NEWER)
    (found,) = (one for one in doctor.examine(flights["jfk"]) if "hq" in one.subject)
    assert f"hq is at {NEWER}" in found.what
    # What a newer schema says of the lag is not to be believed.
    assert status_of(flights["jfk"]).groups[0].lag is None


@pytest.mark.parametrize("revision", [LAST[-1], NEWER])
def test_beat_says_it_once_and_goes_on_after_the_upgrade(
    jfk: Site,
    revision: str,
    caplog: pytest.LogCaptureFixture,
    broker: str,
) -> None:
    look = beat.Look(Celery(broker=broker), jfk)
    call_it(jfk, revision)
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            look.look()
    noted = "SELECT count(*) FROM snaptide.beat"
    assert scalar(jfk, noted) == 0
    said = [line for line in caplog.messages if f"jfk is at {revision}" in line]
    assert len(said) == 1
    assert "\n" not in said[0]
    call_it(jfk, revisions.head())
    with caplog.at_level(logging.INFO):
        look.look()
    assert "Schedules of jfk: works again." in caplog.messages
    assert scalar(jfk, noted) == 1
