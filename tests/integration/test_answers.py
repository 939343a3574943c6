"""A site tells how long what it has changed waits for answers that were promised."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import timedelta

import pytest
from sqlalchemy import Connection

import deferred
import masters
import snapshots
from deferred.queues import backlog
from groups import tasks
from masters.contracts.contract import Promised
from masters.contracts.errors import TermsContradict
from sites import Directory, Site, configured, faults
from sites.configured import Configuration
from snapshots.creating import answers
from snaptide import migrate
from snaptide.embedded import PostgresServer
from snaptide.news import seen as news
from snaptide.reading import AnswerStatus
from snaptide.status import status_of
from tests.coordinated import is_recovery_wanted
from tests.fix_clock import Clock, Machine
from tests.fix_commands import Snaptide
from tests.fix_sites import log
from tests.fix_worker import WriteSettings
from tests.fix_worlds import prepared_once
from tests.linked_table import application, link_orders, parked, run, run_each, scalar
from tests.stories import refresh

MINUTE = 60.0
WITHIN = timedelta(minutes=5)


@pytest.fixture
def jfk(sites: Directory, machine: Machine) -> Site:
    """A site whose orders are queued for hq, which promises answers."""
    promised(sites)
    return sites["jfk"]


def promised(sites: Directory) -> None:
    link_orders(sites, "(1, 'Ann', 1), (2, 'Bob', 2)")
    run(
        sites["jfk"],
        "INSERT INTO snaptide.refresh_group (name, master, master_id)"
        f" VALUES ('g', 'hq', '{uuid.uuid4()}')",
    )
    with sites["jfk"].transaction() as connection:
        answers.keep(connection, "g", Promised(answered_within=WITHIN))


def looked(jfk: Site) -> AnswerStatus:
    snapshots.look_at_answers(jfk)
    [found] = status_of(jfk, alone=True).answers
    return found


def age(jfk: Site) -> float:
    found = looked(jfk).age
    assert found is not None
    return found


def change(jfk: Site, qty: int = 9) -> None:
    run(jfk, f"UPDATE orders SET qty = {qty} WHERE id = 1")


def test_answers_are_late_until_the_master_has_answered(
    jfk: Site, machine: Machine
) -> None:
    assert (looked(jfk).state, age(jfk)) == ("kept", 0)
    change(jfk)
    machine.passes(MINUTE)
    assert age(jfk) <= MINUTE
    machine.passes(3 * MINUTE)
    change(jfk, 10)
    assert (looked(jfk).state, age(jfk) // MINUTE) == ("kept", 3)
    machine.passes(2 * MINUTE)
    found = looked(jfk)
    assert (found.state, found.within) == ("late", 300)
    deferred.push(jfk)
    assert (looked(jfk).state, age(jfk)) == ("kept", 0)


def test_parked_transaction_is_answered(
    jfk: Site, machine: Machine, sites: Directory
) -> None:
    looked(jfk)
    change(jfk)
    run(sites["hq"], "UPDATE orders SET qty = 5 WHERE id = 1")
    machine.passes(10 * MINUTE)
    looked(jfk)
    deferred.push(jfk)
    assert len(parked(sites["hq"])) == 1
    assert (looked(jfk).state, age(jfk)) == ("kept", 0)


def test_change_that_a_push_has_cut_and_not_delivered_waits(
    jfk: Site, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked(jfk)
    change(jfk)
    machine.passes(MINUTE)
    looked(jfk)
    monkeypatch.setenv("SNAPTIDE_FAULT", "push.after_cut:error")
    with pytest.raises(faults.InjectedFault):
        deferred.push(jfk)
    monkeypatch.delenv("SNAPTIDE_FAULT")
    change(jfk, 10)
    machine.passes(3 * MINUTE)
    assert age(jfk) >= 3 * MINUTE


def test_change_that_is_answered_and_purged_during_a_look(
    jfk: Site, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked(jfk)
    change(jfk)
    machine.passes(10 * MINUTE)
    oldest_left = backlog.oldest_left

    def purged_meanwhile(connection: Connection, name: str) -> int | None:
        found = oldest_left(connection, name)
        run(jfk, "DELETE FROM snaptide.deferred_transaction")
        return found

    monkeypatch.setattr(backlog, "oldest_left", purged_meanwhile)
    assert (looked(jfk).state, age(jfk)) == ("kept", 0)


def test_change_counts_from_its_commit(jfk: Site, machine: Machine) -> None:
    """A transaction that was open for long is no older than its commit."""
    looked(jfk)
    writer = application(jfk)
    writer.execute("UPDATE orders SET qty = 3 WHERE id = 1")
    run(jfk, "UPDATE orders SET qty = 3 WHERE id = 2")
    machine.passes(2 * MINUTE)
    looked(jfk)
    deferred.push(jfk)
    machine.passes(20 * MINUTE)
    looked(jfk)
    writer.commit()
    writer.close()
    machine.passes(MINUTE)
    assert age(jfk) <= MINUTE
    assert looked(jfk).state == "kept"


@pytest.mark.parametrize("ahead", [timedelta(days=3), timedelta(days=-3)])
def test_age_is_right_if_the_clock_jumps(
    site_with_clock: Directory, clock: Clock, machine: Machine, ahead: timedelta
) -> None:
    jfk = site_with_clock["jfk"]
    looked(jfk)
    change(jfk)
    clock.set(ahead)
    for minutes in range(1, 5):
        machine.passes(MINUTE)
        assert abs(age(jfk) - minutes * MINUTE) <= MINUTE
    assert looked(jfk).state == "kept"
    clock.set(-ahead)
    machine.passes(3 * MINUTE)
    assert looked(jfk).state == "late"


@pytest.fixture
def site_with_clock(server_with_clock: PostgresServer) -> Iterator[Directory]:
    """The same site, and its master, with a clock that can be set."""
    names = ("hq", "jfk")
    urls = {name: server_with_clock.create_database(name) for name in names}
    with Directory(urls) as directory:
        for name in names:
            migrate.upgrade(directory[name])
        promised(directory)
        yield directory
    for name in names:
        server_with_clock.drop_database(name)


def test_late_answers_are_told_once(jfk: Site, machine: Machine) -> None:
    looked(jfk)
    change(jfk)
    assert news.seen(jfk) == {}
    for minutes in (1, 20):
        machine.passes(minutes * MINUTE)
        looked(jfk)
    first = news.seen(jfk)
    [told] = first.values()
    assert (told.kind, told.subject) == ("answers", "g")
    assert told.todo == "snaptide push jfk hq"
    [found] = status_of(jfk, alone=True).findings
    assert "hq has not answered the oldest change for 2" in found.what
    assert found.what.endswith("the limit is 5 min.")
    machine.passes(MINUTE)
    looked(jfk)
    assert news.seen(jfk) == first
    run(jfk, "UPDATE snaptide.promise SET looked_at = now() - interval '6 min'")
    found = status_of(jfk, alone=True).findings[1]
    assert "No worker has looked at it since" in found.what


def test_recovery_of_a_worker_looks_and_a_broken_look_is_repeated(
    jfk: Site, sites: Directory, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = Configuration(directory=sites)
    monkeypatch.setattr(configured, "_current", ours)
    assert is_recovery_wanted(jfk)
    tasks.recover("jfk")
    change(jfk)
    machine.passes(MINUTE)
    monkeypatch.setenv("SNAPTIDE_FAULT", "answers.before_commit:error")
    with pytest.raises(faults.InjectedFault):
        tasks.recover("jfk")
    tasks.recover("jfk")
    machine.passes(9 * MINUTE)
    tasks.recover("jfk")
    [found] = status_of(jfk, alone=True).answers
    assert found.state == "late"


def test_site_without_a_promise_writes_nothing(
    sites: Directory, machine: Machine
) -> None:
    assert not is_recovery_wanted(sites["jfk"])
    snapshots.look_at_answers(sites["jfk"])
    assert not scalar(sites["jfk"], "SELECT count(*) FROM snaptide.position_time")


@prepared_once("hq", "jfk", needs="spark")
def world(sites: Directory) -> None:
    """A site with an updatable snapshot that shows its rows, and one that is not."""
    run(sites["hq"], "CREATE TABLE public.t (id int PRIMARY KEY, a int)")
    run(sites["hq"], "CREATE TABLE public.codes (id int PRIMARY KEY)")
    log(sites["hq"], "t", "codes")
    snapshots.create(sites["jfk"], "t", master="hq", group="g", updatable=True)
    snapshots.create(sites["jfk"], "codes", master="hq", group="codes")
    refresh(sites["jfk"], "g")


def test_site_learns_at_its_next_contact_that_a_promise_has_changed(
    world: Directory, write_settings: WriteSettings
) -> None:
    snaptide = Snaptide(write_settings(world))
    hq, jfk = world["hq"], world["jfk"]

    def within() -> list[float]:
        return [one.within for one in status_of(jfk, alone=True).answers]

    made = snaptide.report("contract", "set", "jfk", "g", "--answered-within", "5m")
    assert made["answered_within"] == 300
    assert within() == [300]
    assert "answered 5m" in snaptide.said("contract", "list", "hq")
    assert "answers to" in snaptide.said("status", "jfk")
    run(hq, "UPDATE snaptide.contract SET answered_within = '1 h'")
    run_each(hq, "INSERT INTO t VALUES (1)")
    refresh(jfk, "g")
    assert within() == [3600]
    masters.drop_contract(hq, "jfk", "g")
    run_each(hq, "INSERT INTO t VALUES (2)")
    refresh(jfk, "g")
    assert within() == []


def test_promise_stays_while_a_master_of_an_older_version_cannot_say(
    world: Directory,
) -> None:
    hq, jfk = world["hq"], world["jfk"]
    snapshots.set_contract(jfk, "g", answered_within=WITHIN)
    migrate.downgrade(hq, "0079")
    run(hq, "INSERT INTO t VALUES (1)")
    assert refresh(jfk, "g")["t"].inserted == 1
    [found] = status_of(jfk, alone=True).answers
    assert found.within == WITHIN.total_seconds()


def test_promise_of_answers_alone_is_a_contract_and_needs_changes(
    world: Directory,
) -> None:
    jfk = world["jfk"]
    made = snapshots.set_contract(jfk, "g", answered_within=WITHIN)
    assert (made.answered_within, made.visible_within) == (WITHIN, None)
    with pytest.raises(TermsContradict, match="no updatable snapshot"):
        snapshots.set_contract(jfk, "codes", answered_within=WITHIN)
    with pytest.raises(TermsContradict, match="more than nothing"):
        snapshots.set_contract(jfk, "g", answered_within=timedelta(0))
    snapshots.set_contract(jfk, "g", visible_within=WITHIN)
    snapshots.look_at_answers(jfk)
    assert status_of(jfk, alone=True).answers == ()
    assert masters.list_contracts(world["hq"])[0].answered_within is None
