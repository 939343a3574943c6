"""What was queued before a way began does not go that way, though it is still kept."""

from datetime import timedelta
from functools import partial

import pytest

import deferred
import groups
from deferred.batches.rebase_transaction_ids import lock, rebase_transaction_ids
from sites import Directory, Site
from tests.fix_worlds import prepared_once
from tests.grouped import (
    GROUP,
    assert_masters_equal,
    broken_off_at,
    found_with_ten_rows,
    push_all,
)
from tests.linked_table import run

pytestmark = pytest.mark.usefixtures("spark")


@prepared_once("hq", "lax", "bos")
def grown(sites: Directory) -> None:
    """Two masters whose ten rows are pushed, and kept in the queue of hq."""
    found_with_ten_rows(sites)


def test_new_master_waits_for_nothing_that_its_copy_has(grown: Directory) -> None:
    groups.join_master(grown["hq"], GROUP, "bos")
    assert waiting(grown["hq"]) == {"lax": 0, "bos": 0}
    assert push_all(grown) == 0
    assert groups.suspend(grown["hq"], GROUP).pushed == 0
    groups.resume(grown["hq"], GROUP)
    run(grown["hq"], "UPDATE orders SET qty = 1 WHERE id = 1")
    assert waiting(grown["hq"]) == {"lax": 1, "bos": 1}
    assert push_all(grown) == 2
    assert_masters_equal(grown, "hq", "lax", "bos")
    assert deferred.purge(grown["hq"], retention=timedelta(0)).calls == 11
    groups.remove_table(grown["hq"], GROUP, "orders")


def test_join_said_again_brings_no_change_twice(grown: Directory) -> None:
    with broken_off_at("group_join.after_begin"):
        groups.join_master(grown["hq"], GROUP, "bos")
    run(grown["hq"], "UPDATE orders SET qty = 7 WHERE id = 7")
    run(grown["hq"], "UPDATE orders SET qty = 8 WHERE id = 7")
    run(grown["hq"], "INSERT INTO orders (id, qty) VALUES (11, 0)")
    groups.join_master(grown["hq"], GROUP, "bos")
    run(grown["hq"], "UPDATE orders SET qty = 9 WHERE id IN (7, 11)")
    push_all(grown)
    assert_masters_equal(grown, "hq", "lax", "bos")


def test_other_paths_and_back_bring_no_change_twice(grown: Directory) -> None:
    """What went by the hub is not sent again by those who sent it there."""
    home = grown["hq"]
    groups.join_master(home, GROUP, "bos")
    groups.set_paths(home, GROUP, partial(groups.star, hub="hq"))
    for qty, name in enumerate(("lax", "bos"), 1):
        run(grown[name], f"UPDATE orders SET qty = {qty} WHERE id = 1")
        push_all(grown)
    groups.set_paths(home, GROUP, groups.full_mesh)
    assert push_all(grown) == 0
    assert_masters_equal(grown, "hq", "lax", "bos")


def test_repaired_site_sends_a_new_master_nothing_old(grown: Directory) -> None:
    """Also what is numbered anew after a repair comes after the way began."""
    groups.join_master(grown["hq"], GROUP, "bos")
    run(grown["hq"], "UPDATE orders SET qty = 1 WHERE id = 1")
    for generation in (1, 2):
        with grown["hq"].connect() as plain:
            connection = plain.execution_options(isolation_level="REPEATABLE READ")
            lock(connection)
            rebase_transaction_ids(connection, generation)
            connection.commit()
        assert waiting(grown["hq"])["bos"] == generation
        run(grown["hq"], "UPDATE orders SET qty = 2 WHERE id = 2")
    push_all(grown)
    assert_masters_equal(grown, "hq", "lax", "bos")


def test_master_that_is_removed_leaves_nothing_to_deliver(grown: Directory) -> None:
    groups.join_master(grown["hq"], GROUP, "bos")
    for _ in range(2):
        run(grown["hq"], "UPDATE orders SET qty = qty + 1 WHERE id = 1")
    deferred.push(grown["hq"], "bos", transaction_count=1)
    groups.remove_master(grown["hq"], GROUP, "bos", force=True)
    push_all(grown)
    purged = deferred.purge(grown["hq"], retention=timedelta(0))
    assert purged.calls == 12


def waiting(site: Site) -> dict[str, int]:
    """How many calls wait at a master for each other one."""
    for one in groups.show_group(site, GROUP).masters:
        if one.master == site.name:
            return one.waiting
    raise AssertionError(site.name)
