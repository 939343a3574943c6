"""Snapshots come, or are altered, while their group is switched to another master."""

from __future__ import annotations

from typing import Any

import pytest

import groups
import snapshots
from groups import switch_commit
from groups.errors import CannotSwitch
from groups.redirect import Redirected
from sites import Directory
from snapshots.creating import base_table
from snapshots.definitions.errors import MixedMasters
from tests.fix_moments import Moments
from tests.fix_worlds import prepared_once
from tests.grouped import GROUP, THREE, found_adding_up
from tests.linked_table import run
from tests.stories import assert_equal_to_master, push_and_refresh, refresh

pytestmark = pytest.mark.usefixtures("spark")

ROUTES = "SELECT DISTINCT destination FROM snaptide.route"
REGISTERED = "SELECT snapshot FROM snaptide.registered_snapshot ORDER BY snapshot"


@prepared_once(*THREE, "jfk")
def world(sites: Directory) -> None:
    """Three masters whose quantities add up, five rows; a snapshot of hq."""
    found_adding_up(sites, 5)


def test_one_that_is_filled_meanwhile_goes_along(world: Directory) -> None:
    """Its queue is made by the refresh that brings the masters level."""
    jfk, lax = world["jfk"], world["lax"]
    snapshots.create(
        jfk,
        "late",
        table="orders",
        master="hq",
        group="orders",
        where="id > 3",
        updatable=True,
    )
    groups.switch_master(jfk, "orders", to="lax")
    assert run(jfk, ROUTES) == [("lax",)]
    run(jfk, "UPDATE late SET qty = qty + 7 WHERE id = 5")
    push_and_refresh(jfk, "orders")
    assert run(lax, "SELECT qty FROM orders WHERE id = 5") == [(7,)]
    assert_equal_to_master(jfk)


@pytest.mark.parametrize("gone", ["lax", "orders"])
def test_a_master_that_leaves_the_group_meanwhile_is_refused(
    world: Directory, moments: Moments, gone: str
) -> None:
    """What the site has pushed to the former master would never come to it."""
    hq, jfk = world["hq"], world["jfk"]
    run(jfk, "UPDATE orders SET qty = qty + 7 WHERE id = 5")
    leave = groups.remove_master if gone == "lax" else groups.remove_table
    moments.at("switch.after_register", lambda: leave(hq, GROUP, gone))
    with pytest.raises(CannotSwitch, match="group"):
        groups.switch_master(jfk, "orders", to="lax")
    assert run(world["lax"], REGISTERED) == []
    push_and_refresh(jfk, "orders")
    assert run(hq, "SELECT qty FROM orders WHERE id = 5") == [(7,)]
    assert_equal_to_master(jfk)


def test_other_masters_may_leave_the_group_meanwhile(
    world: Directory, moments: Moments
) -> None:
    """The switch begins anew, with the masters that there are then."""
    jfk, lax = world["jfk"], world["lax"]
    run(jfk, "UPDATE orders SET qty = qty + 7 WHERE id = 5")
    moments.at(
        "switch.after_register",
        lambda: groups.remove_master(world["hq"], GROUP, "bos"),
    )
    report = groups.switch_master(jfk, "orders", to="lax")
    assert (report.next_refresh, report.why) == ("fast", None)
    assert run(lax, "SELECT qty FROM orders WHERE id = 5") == [(7,)]
    assert_equal_to_master(jfk)


def test_one_that_is_created_meanwhile_is_refused(
    world: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the former master would keep its log for it."""
    jfk, real = world["jfk"], base_table.create

    def switched_before(*given: Any) -> None:
        groups.switch_master(jfk, "orders", to="lax")
        real(*given)

    with monkeypatch.context() as patch:
        patch.setattr(base_table, "create", switched_before)
        with pytest.raises(MixedMasters):
            snapshots.create(jfk, "late", table="orders", master="hq", group="orders")
    assert run(world["hq"], REGISTERED) == []
    assert run(world["lax"], REGISTERED) == [("orders",)]
    refresh(jfk, "orders")
    assert_equal_to_master(jfk)


def test_one_that_is_created_at_the_last_moment_goes_along(
    world: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The switch, whose moment is an earlier one, begins anew."""
    jfk, real = world["jfk"], switch_commit._redirect

    def created_before(*given: Any) -> Redirected:
        monkeypatch.setattr(switch_commit, "_redirect", real)
        snapshots.create(jfk, "late", table="orders", master="hq", group="orders")
        return real(*given)

    monkeypatch.setattr(switch_commit, "_redirect", created_before)
    groups.switch_master(jfk, "orders", to="lax")
    assert run(world["hq"], REGISTERED) == []
    assert run(world["lax"], REGISTERED) == [("late",), ("orders",)]
    refresh(jfk, "orders")
    assert_equal_to_master(jfk)


def test_a_group_that_becomes_synchronous_meanwhile_is_refused(
    world: Directory, moments: Moments
) -> None:
    jfk = world["jfk"]
    moments.at(
        "switch.after_level",
        lambda: snapshots.alter_propagation(jfk, "orders", synchronous=True),
    )
    with pytest.raises(CannotSwitch, match="user's own transaction"):
        groups.switch_master(jfk, "orders", to="lax")
    assert run(world["lax"], REGISTERED) == []
    assert run(jfk, ROUTES) == [("hq",)]
