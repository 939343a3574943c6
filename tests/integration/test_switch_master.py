"""Snapshots are switched to another master: nothing is lost, nothing comes twice."""

import os
import random
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy.exc import DBAPIError

import deferred
import groups
import masters
import snapshots
from deferred.options import ErrorAction
from deferred.pushing.push import destinations
from groups import switch_commit
from groups.differences import differences
from groups.errors import CannotSwitch
from groups.redirect import Redirected
from masters.errors import NoSnapshotLog
from sites import Directory, Site
from sites.configured import Configuration, configure
from snapshots.refreshing import former
from snaptide.doctor import examine
from tests.fix_moments import Moments
from tests.fix_worlds import prepared_once
from tests.grouped import (
    GROUP,
    THREE,
    assert_masters_equal,
    broken_off_at,
    found_adding_up,
    found_group,
    push_all,
    push_among,
    without,
)
from tests.let_go import END_LOCKS
from tests.linked_table import rows, run, run_each
from tests.stories import assert_equal_to_master, refresh

pytestmark = pytest.mark.usefixtures("spark")

ADD = "UPDATE orders SET qty = qty + {} WHERE id = {}"


@prepared_once(*THREE, "jfk")
def world(sites: Directory) -> None:
    """Three masters whose quantities add up, five rows; a snapshot of hq."""
    found_adding_up(sites, 5)


def masters_of(sites: Directory) -> dict[str, Site]:
    return {name: sites[name] for name in THREE}


def quantities(site: Site) -> dict[int, int]:
    return {row[0]: row[2] for row in rows(site)}


def test_masters_are_made_level_and_the_next_refresh_is_fast(world: Directory) -> None:
    """While it goes on, users write at all of them, and at the site."""
    jfk = world["jfk"]
    run(world["bos"], ADD.format(100, 1))
    run(world["lax"], ADD.format(10, 1))
    run(jfk, ADD.format(1, 1))
    report = groups.switch_master(jfk, "orders", to="lax")
    assert (report.next_refresh, report.why) == ("fast", None)
    assert report.unregistered
    assert quantities(jfk)[1] == 111
    run(jfk, ADD.format(1, 2))
    run(world["bos"], ADD.format(10, 3))
    push_all(masters_of(world))
    found = snapshots.refresh(jfk, "orders")
    assert [one.method for one in found.snapshots] == ["fast"]
    assert found.snapshots[0].window_keys == 3
    push_all(masters_of(world))
    assert_masters_equal(world, *THREE)
    assert_equal_to_master(jfk)
    assert destinations(jfk) == ["lax"]
    assert registered(world["hq"]) == []
    assert registered(world["lax"]) == [("orders",)]


def test_ddl_at_the_new_master_meanwhile_is_seen(
    world: Directory, moments: Moments
) -> None:
    """It changes values that no log has; the refresh compares all rows."""
    hq, jfk = world["hq"], world["jfk"]

    def alter() -> None:
        groups.suspend(hq, GROUP)
        groups.execute_ddl(
            hq, GROUP, "ALTER TABLE orders ALTER qty TYPE int USING qty + 1"
        )
        groups.resume(hq, GROUP)

    moments.at("switch.after_level", alter)
    groups.switch_master(jfk, "orders", to="lax")
    assert snapshots.refresh(jfk, "orders").snapshots[0].method == "complete"
    assert_equal_to_master(jfk)


def test_all_that_waits_comes_before_masters_are_level(world: Directory) -> None:
    """Also where this process has limits for its pushes, or has them wait for work."""
    jfk = world["jfk"]
    for number in range(1, 6):
        run(world["lax"], ADD.format(1, number))
    limits = {"transaction_count": 1, "delay_seconds": 3600}
    configure(Configuration(directory=world, push=limits))
    try:
        report = groups.switch_master(jfk, "orders", to="lax")
    finally:
        configure(Configuration(directory=world))
    assert (report.next_refresh, report.why) == ("fast", None)
    refresh(jfk, "orders")
    assert_equal_to_master(jfk)


def test_another_pusher_brings_what_has_yet_to_be_sent_on(
    make_sites: Callable[..., Directory], moments: Moments
) -> None:
    """Between two pushes of one round: none of them moves anything."""
    sites = make_sites(*THREE, "jfk")
    found_group(sites, "hq", "bos", "lax", via={"lax": "bos"})
    for name in THREE:
        masters.create_snapshot_log(sites[name], "orders")
    jfk = sites["jfk"]
    snapshots.create(jfk, "orders", master="hq", updatable=True)
    refresh(jfk, "orders")
    run(sites["lax"], "INSERT INTO orders (id, qty) VALUES (1, 1)")
    # Two pushes went before, one of them from bos to hq; that from lax comes last.
    cut, left = "push.before_cut_commit", [None] * 2

    def look() -> None:
        if left:
            left.pop()
            moments.at(cut, look)
        else:
            assert deferred.push(sites["lax"], "bos").transactions == 1

    moments.at(cut, look)
    report = groups.switch_master(jfk, "orders", to="lax")
    assert (report.next_refresh, report.why) == ("fast", None)
    push_all(masters_of(sites))
    refresh(jfk, "orders")
    assert_equal_to_master(jfk)


def test_what_was_withdrawn_goes_to_the_new_master(world: Directory) -> None:
    hq, jfk = world["hq"], world["jfk"]
    snapshots.drop(jfk, "orders")
    made: dict[str, Any] = {"where": "qty < 50", "leaving": "park", "updatable": True}
    snapshots.create(jfk, "orders", master="hq", **made)
    refresh(jfk, "orders")
    run(hq, ADD.format(100, 2))
    run(jfk, ADD.format(7, 2))
    assert refresh(jfk, "orders")["orders"].withdrawn == 1
    groups.switch_master(jfk, "orders", to="lax")
    refresh(jfk, "orders")
    [retried] = deferred.retry_errors(jfk)
    assert retried.applied
    deferred.push(jfk)
    push_all(masters_of(world))
    assert quantities(world["lax"])[2] == quantities(hq)[2] == 107
    # A snapshot made anew is another one, also of a master that has the same rows.
    run(hq, ADD.format(100, 3))
    push_all(masters_of(world))
    run(jfk, ADD.format(7, 3))
    assert refresh(jfk, "orders")["orders"].withdrawn == 1
    snapshots.drop(jfk, "orders")
    snapshots.create(jfk, "orders", master="bos", **made)
    refresh(jfk, "orders")
    [retried] = deferred.retry_errors(jfk)
    assert "is of orders at bos now, not of orders at lax" in retried.reason


def registered(site: Site) -> list[tuple[object, ...]]:
    return run(site, "SELECT snapshot FROM snaptide.registered_snapshot")


def test_what_waits_goes_to_the_new_master_once(world: Directory) -> None:
    """The former one took some of it: sent on to all, to one, to nobody, parked."""
    jfk = world["jfk"]
    for number in range(1, 5):
        run(jfk, ADD.format(10**number, number))
        if number < 4:
            deferred.push(jfk)
        if number == 1:
            push_all(masters_of(world))
        if number == 2:
            deferred.push(world["hq"], "bos")
    with without(world, "hq") as left:
        report = groups.switch_master(left["jfk"], "orders", to="lax")
        assert (report.transactions, report.settled) == (3, 1)
        assert report.next_refresh == "complete"
        assert report.why is not None
        assert "hq" in report.why
        assert not report.unregistered
        untold = [one.what for one in examine(left["jfk"]) if "log for it" in one.what]
        assert untold == [
            (
                "It has another master now, but hq could not be told and still keeps"
                " its log for it."
            )
        ]
        run(left["jfk"], ADD.format(1, 1))
        push_among(left, "jfk", "lax", "bos")
        expected = {1: 11, 2: 100, 3: 1000, 4: 10000, 5: 0}
        for name in ("lax", "bos"):
            assert quantities(left[name]) == expected, name
        found = snapshots.refresh(left["jfk"], "orders")
        assert [one.method for one in found.snapshots] == ["complete"]
        assert quantities(left["jfk"]) == expected
    # The former master is back, and sends what it had.
    push_all(masters_of(world))
    assert quantities(world["hq"]) == expected
    assert_masters_equal(world, *THREE)
    assert_equal_to_master(jfk)


STORIES = int(os.environ.get("SNAPTIDE_SWITCHES", "1"))

#: Ten minutes after the former master was found to be away.
LATER = "UPDATE snaptide.former_master SET tried_at = tried_at - interval '10 min'"

BEFORE = [
    "switch.after_register",
    "switch.after_level",
    "switch.after_watch",
    "switch.before_commit",
]


@pytest.mark.parametrize("points", [BEFORE, ["switch.after_commit"]], ids=["no", "yes"])
def test_interrupted_nothing_has_changed_or_all_has(
    world: Directory, points: list[str]
) -> None:
    """The former master took a change, sent it to one of the others, and is away."""
    run(world["jfk"], ADD.format(10, 1))
    deferred.push(world["jfk"])
    deferred.push(world["hq"], "bos")
    run(world["jfk"], ADD.format(100, 1))
    done = points != BEFORE
    with without(world, "hq") as left:
        for point in points:
            with broken_off_at(point):
                groups.switch_master(left["jfk"], "orders", to="lax")
            assert destinations(left["jfk"]) == ["lax" if done else "hq"], point
        if not done:
            assert groups.switch_master(left["jfk"], "orders", to="lax").transactions
        push_among(left, "jfk", "lax", "bos")
        assert quantities(left["bos"])[1] == 110
    push_all(masters_of(world))
    run(world["jfk"], LATER)
    snapshots.refresh(world["jfk"], "orders")
    assert assert_masters_equal(world, *THREE)[0][2] == 110
    assert_equal_to_master(world["jfk"])
    assert registered(world["hq"]) == []


def test_cut_off_it_may_stay_with_its_master(world: Directory) -> None:
    """What the new one watches for then is nothing that anyone sends it twice."""
    run(world["jfk"], ADD.format(10, 1))
    deferred.push(world["jfk"])
    with without(world, "hq") as left, broken_off_at("switch.before_commit"):
        groups.switch_master(left["jfk"], "orders", to="lax")
    run(world["jfk"], ADD.format(100, 1))
    deferred.push(world["jfk"])
    push_all(masters_of(world))
    snapshots.refresh(world["jfk"], "orders")
    assert assert_masters_equal(world, *THREE)[0][2] == 110
    assert_equal_to_master(world["jfk"])


def test_push_that_comes_when_the_locks_are_lost_takes_nothing_twice(
    world: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sessions are ended that keep pushes away; nothing else notices."""
    jfk = world["jfk"]

    def pushed(*given: Any) -> Redirected:
        run(jfk, ADD.format(1, 1))
        run(jfk, END_LOCKS)
        deferred.push(jfk)
        return switch_commit.commit(*given)

    monkeypatch.setattr("groups.switch.commit", pushed)
    with suppress(DBAPIError):
        groups.switch_master(jfk, "orders", to="lax")
    monkeypatch.undo()
    for _ in range(3):
        push_all(world)
    refresh(jfk, "orders")
    assert quantities(jfk)[1] == quantities(world["hq"])[1] == 1
    assert_masters_equal(world, *THREE)
    assert_equal_to_master(jfk)


def test_and_back_again(world: Directory) -> None:
    """To a master that has a marker of the site, and changes that it had parked."""
    jfk = world["jfk"]
    run(world["hq"], "UPDATE orders SET name = 'hq' WHERE id = 1")
    run_each(jfk, ADD.format(1, 2), "UPDATE orders SET name = 'jfk' WHERE id = 1")
    assert deferred.push(jfk).errors == 1
    with without(world, "hq") as left:
        groups.switch_master(left["jfk"], "orders", to="lax")
        push_among(left, "jfk", "lax", "bos")
        # There the row was as the site had it.
        assert rows(left["lax"])[0][1] == "jfk"
    report = groups.switch_master(jfk, "orders", to="hq")
    assert report.why is not None
    assert "parked" in report.why
    [parked] = deferred.list_errors(world["hq"])
    deferred.delete_errors(world["hq"], [parked.id])
    push_all(masters_of(world))
    run(jfk, ADD.format(10, 2))
    snapshots.refresh(jfk, "orders")
    push_all(masters_of(world))
    for name in THREE:
        assert quantities(world[name])[2] == 11, name
    assert registered(world["lax"]) == []


def test_what_was_given_up_and_is_sent_again_is_said_to_differ(
    world: Directory,
) -> None:
    """At the former master it was deleted when no other had it; it comes no more."""
    hq, jfk = world["hq"], world["jfk"]
    run(hq, "ALTER TABLE orders ADD CHECK (name <> 'bad')")
    run(jfk, "UPDATE orders SET name = 'bad' WHERE id = 1")
    run(jfk, ADD.format(10, 2))
    assert deferred.push(jfk).errors == 1
    deferred.delete_errors(hq)
    assert differences(hq) == []
    with without(world, "hq") as left:
        groups.switch_master(left["jfk"], "orders", to="lax")
        push_among(left, "jfk", "lax", "bos")
    push_all(masters_of(world))
    assert [rows(world[name])[0][1] for name in THREE] == [None, "bad", "bad"]
    [told] = differences(hq)
    assert (told.key, told.rows) == ("id=1", 1)
    assert "of jfk has come here before" in told.why
    run(world["lax"], "UPDATE orders SET name = NULL WHERE id = 1")
    deferred.push(world["lax"], "bos")
    assert differences(hq) == []


def test_master_that_was_left_is_not_told_so_while_snapshots_come_back(
    world: Directory, moments: Moments
) -> None:
    """It was away when they left; the refreshes of the switch would tell it now."""
    jfk = world["jfk"]
    with without(world, "hq") as left:
        groups.switch_master(left["jfk"], "orders", to="lax")
        push_among(left, "jfk", "lax", "bos")
    run(world["lax"], ADD.format(1, 1))
    moments.at("switch.after_register", lambda: run(jfk, LATER))
    moments.at(
        "switch.after_level",
        lambda: former.unregister_at_former(jfk, pause=timedelta()),
    )
    groups.switch_master(jfk, "orders", to="hq")
    assert registered(world["hq"]) == [("orders",)]
    assert registered(world["lax"]) == []


def test_master_is_told_nothing_that_is_no_more_so(
    world: Directory, moments: Moments
) -> None:
    """The snapshots have come back to it between two looks of who would tell it."""
    jfk = world["jfk"]
    with without(world, "hq") as left:
        groups.switch_master(left["jfk"], "orders", to="lax")
        push_among(left, "jfk", "lax", "bos")
    moments.at(
        "former.before_tell", lambda: groups.switch_master(jfk, "orders", to="hq")
    )
    assert former.unregister_at_former(jfk, pause=timedelta()) == []
    assert registered(world["hq"]) == [("orders",)]


def test_masters_are_not_level_while_one_between_them_has_parked_something(
    world: Directory,
) -> None:
    """What bos cannot apply it sends to nobody: lax does not have it."""
    groups.set_paths(world["hq"], GROUP, lambda names: groups.star(names, hub="bos"))
    run(world["bos"], "UPDATE orders SET name = 'bos' WHERE id = 1")
    run(world["hq"], "UPDATE orders SET name = 'hq' WHERE id = 1")
    assert deferred.push(world["hq"], "bos").errors == 1
    report = groups.switch_master(world["jfk"], "orders", to="lax")
    assert report.why == "1 transaction is parked at bos that may change orders"


def test_masters_are_not_level_while_one_lists_rows_as_different(
    world: Directory,
) -> None:
    """No log of the new master tells what the former one has given up."""
    hq, lax, jfk = (world[name] for name in ("hq", "lax", "jfk"))
    run(hq, "ALTER TABLE orders ADD CHECK (name <> 'bad')")
    run(lax, "UPDATE orders SET name = 'bad' WHERE id = 1")
    push_all(masters_of(world))
    deferred.delete_errors(hq)
    report = groups.switch_master(jfk, "orders", to="lax")
    assert report.why is not None
    assert report.why.startswith("rows of orders may differ at hq: transaction")
    snapshots.refresh(jfk, "orders")
    assert rows(jfk) == rows(lax)


def test_batch_that_is_under_way_takes_nothing_twice(
    world: Directory, moments: Moments
) -> None:
    """The former master's push has begun when the new one is told to watch."""
    run_each(world["jfk"], *(ADD.format(10, n) for n in (1, 2, 3)))
    deferred.push(world["jfk"])
    with without(world, "hq") as left:

        def switch() -> None:
            groups.switch_master(left["jfk"], "orders", to="lax")
            deferred.push(left["jfk"], "lax")

        moments.at("push.after_plan", switch)
        deferred.push(world["hq"], "lax")
    push_all(masters_of(world))
    snapshots.refresh(world["jfk"], "orders")
    assert quantities(world["lax"]) == {1: 10, 2: 10, 3: 10, 4: 0, 5: 0}
    assert_masters_equal(world, *THREE)
    assert_equal_to_master(world["jfk"])


def test_master_that_is_only_read_takes_nothing_twice(world: Directory) -> None:
    """The former master has brought it there, and nowhere else."""
    groups.remove_master(world["hq"], GROUP, "bos")
    protected = groups.TargetType.PROTECTED_READ_ONLY
    groups.add_master(world["hq"], GROUP, "bos", target_type=protected)
    run_each(world["jfk"], *(ADD.format(10, n) for n in (1, 2)))
    deferred.push(world["jfk"], transaction_count=1)
    deferred.push(world["hq"], "bos")
    with without(world, "hq") as left:
        groups.switch_master(left["jfk"], "orders", to="lax")
        push_among(left, "jfk", "lax", "bos")
        for name in ("lax", "bos"):
            assert deferred.list_errors(left[name]) == []
            assert quantities(left[name]) == {1: 10, 2: 10, 3: 0, 4: 0, 5: 0}, name


@pytest.mark.parametrize("back", [False, True], ids=["gone", "back"])
def test_master_that_the_group_has_forgotten_is_left(
    world: Directory, *, back: bool
) -> None:
    """It had brought a change to one of the others; what it is asked counts no more."""
    groups.switch_master(world["jfk"], "orders", to="lax")
    run(world["jfk"], ADD.format(10, 1))
    deferred.push(world["jfk"])
    deferred.push(world["lax"], "bos")
    run(world["jfk"], ADD.format(10, 2))
    with without(world, "lax") as left:
        groups.forget_master(left["hq"], GROUP, "lax")
        sites = world if back else left
        report = groups.switch_master(sites["jfk"], "orders", to="hq")
        assert report.why == "lax is no longer a master of group sales"
        assert report.transactions == 2
        push_among(left, "jfk", "hq", "bos")
        snapshots.refresh(left["jfk"], "orders")
        for name in ("jfk", "hq", "bos"):
            assert quantities(left[name]) == {1: 10, 2: 10, 3: 0, 4: 0, 5: 0}, name


@pytest.mark.parametrize("away", [False, True])
def test_rows_that_were_parked_alone_come_to_all_once_they_are_retried(
    world: Directory, *, away: bool
) -> None:
    """Their transaction has come before, but by the same way, and without them."""
    run(world["hq"], "UPDATE orders SET name = 'taken' WHERE id = 1")
    push_among(world, *THREE)
    run(
        world["jfk"],
        "UPDATE orders SET name = 'mine' WHERE id = 1",
        ADD.format(10, 2),
    )
    assert deferred.push(world["jfk"], error_action=ErrorAction.SKIP_ROW).errors == 1
    push_among(world, *THREE)
    with without(world, "hq") as left:
        sites = left if away else world
        groups.switch_master(sites["jfk"], "orders", to="lax")
    run(world["hq"], "UPDATE orders SET name = NULL WHERE id = 1")
    assert [one.applied for one in deferred.retry_errors(world["hq"])] == [True]
    push_all(world)
    found = assert_masters_equal(world, *THREE)
    assert [row[1:3] for row in found[:2]] == [("mine", 0), (None, 10)]


def test_what_may_have_come_is_taken_only_if_old_values_agree(
    world: Directory,
) -> None:
    """A batch from before masters remembered says nothing: no rule may decide."""
    run(world["jfk"], ADD.format(10, 1))
    deferred.push(world["jfk"])
    deferred.push(world["hq"], "lax")
    run(world["jfk"], ADD.format(10, 2))
    deferred.push(world["jfk"])
    forget = "UPDATE snaptide.push_batch SET transactions = NULL"
    run(world["lax"], forget)
    with without(world, "hq") as left:
        groups.switch_master(left["jfk"], "orders", to="lax")
        assert deferred.push(left["jfk"], "lax").errors == 1
        assert quantities(left["lax"]) == {1: 10, 2: 10, 3: 0, 4: 0, 5: 0}


def test_master_that_does_not_do_is_refused(
    world: Directory, make_sites: Callable[..., Directory]
) -> None:
    jfk = world["jfk"]
    with pytest.raises(CannotSwitch, match="hq is already the master of orders"):
        groups.switch_master(jfk, "orders", to="hq")
    masters.drop_snapshot_log(world["lax"], "orders")
    with pytest.raises(NoSnapshotLog):
        groups.switch_master(jfk, "orders", to="lax")
    masters.create_snapshot_log(world["lax"], "orders")
    snapshots.alter_propagation(jfk, "orders", synchronous=True)
    with pytest.raises(CannotSwitch, match="--propagation asynchronous"):
        groups.switch_master(jfk, "orders", to="lax")
    snapshots.alter_propagation(jfk, "orders", synchronous=False)
    groups.remove_master(world["hq"], "sales", "lax")
    with pytest.raises(CannotSwitch, match="not in one replication group at lax"):
        groups.switch_master(jfk, "orders", to="lax")
    read_only = groups.TargetType.PROTECTED_READ_ONLY
    groups.add_master(world["hq"], "sales", "lax", target_type=read_only)
    with pytest.raises(CannotSwitch, match="lax is protected_read_only"):
        groups.switch_master(jfk, "orders", to="lax")
    assert destinations(jfk) == ["hq"]
    assert registered(world["lax"]) == []


@pytest.mark.parametrize("seed", range(1, STORIES + 1))
def test_whatever_comes_between_switches_each_change_counts_once(
    world: Directory, seed: int
) -> None:
    """Quantities add up: one that is lost, or comes twice, is missed in the sum.

    SNAPTIDE_SWITCHES says how many such stories are tried.
    """
    chance = random.Random(seed)
    if seed % 2:
        groups.set_paths(world["hq"], GROUP, groups.chain)
    expected = dict.fromkeys(range(1, 6), 0)
    for step in range(12):
        told = f"seed {seed}, step {step}"
        for name in chance.sample(["jfk", "jfk", *THREE], 2):
            row, more = chance.randint(1, 5), 10 ** chance.randint(0, 5)
            run(world[name], ADD.format(more, row))
            expected[row] += more
        for name in chance.sample(["jfk", *THREE], 2):
            to = chance.choice(destinations(world[name]))
            assert deferred.push(world[name], to).errors == 0, told
        if step % 4 == 3:
            [former] = destinations(world["jfk"])
            new = chance.choice([name for name in THREE if name != former])
            if chance.random() < 0.3:
                groups.switch_master(world["jfk"], "orders", to=new)
            else:
                with without(world, former) as left:
                    groups.switch_master(left["jfk"], "orders", to=new)
    push_all(world)
    for name in THREE:
        assert quantities(world[name]) == expected, f"seed {seed}, {name}"
    snapshots.refresh(world["jfk"], "orders")
    assert_equal_to_master(world["jfk"])


@prepared_once(*THREE, "jfk")
def shop(sites: Directory) -> None:
    """Orders and lines of three masters; at hq, order 5 of jfk is parked."""
    found_group(sites, *THREE)
    for name in THREE:
        run(
            sites[name],
            "CREATE TABLE line (id int PRIMARY KEY,"
            " order_id int NOT NULL REFERENCES orders)",
        )
    groups.add_table(sites["hq"], GROUP, "line")
    for name in THREE:
        for table in ("orders", "line"):
            masters.create_snapshot_log(sites[name], table)
    hq, jfk = sites["hq"], sites["jfk"]
    for table in ("orders", "line"):
        snapshots.create(jfk, table, master="hq", updatable=True, group="shop")
    refresh(jfk, "shop")
    run(jfk, "INSERT INTO orders (id, name) VALUES (5, 'of jfk')")
    run(hq, "INSERT INTO orders (id, name) VALUES (5, 'of hq')")
    push_all(masters_of(sites))
    assert deferred.push(jfk).errors == 1


@pytest.mark.parametrize("refreshed", [False, True])
@pytest.mark.parametrize("answers", [True, False])
def test_what_refers_to_a_row_parked_at_the_former_master_waits(
    shop: Directory, answers: bool, refreshed: bool
) -> None:
    """Another site's order has the key by now; the line means the parked one.

    Purge keeps that one, whether a refresh shows the other or none has come for long.
    """
    jfk = shop["jfk"]
    run(jfk, "INSERT INTO line VALUES (1, 5)")
    if refreshed:
        snapshots.refresh(jfk, "shop", push_deferred_rpc=False)
    deferred.purge(jfk, retention=timedelta(), fold_after=timedelta())
    if answers:
        groups.switch_master(jfk, "shop", to="lax")
        deferred.push(jfk)
    else:
        with without(shop, "hq") as left:
            groups.switch_master(left["jfk"], "shop", to="lax")
            deferred.push(left["jfk"])
    assert rows(shop["lax"], "line") == []
