"""Each master takes a transaction once, in all its parts, by whatever way it comes."""

import pytest
from sqlalchemy.exc import OperationalError
from tenacity import retry, retry_if_exception_type, stop_after_delay

import deferred
import groups
import masters
import snapshots
from masters import rules
from sites import Directory
from snaptide.repair import repair
from tests.fix_db import Clone
from tests.fix_worlds import prepared_once
from tests.grouped import GROUP, found_group, push_all, push_among, without
from tests.linked_table import rows, run
from tests.stories import refresh

pytestmark = pytest.mark.usefixtures("spark")

MASTERS = ("hq", "lax", "bos")
ADD = "UPDATE orders SET qty = qty + {} WHERE id = 1"
ADD_PARTS = "UPDATE parts SET qty = qty + {} WHERE id = 1"


@prepared_once(*MASTERS, "jfk", needs="spark")
def world(sites: Directory) -> None:
    """Orders and parts, which add up, at three masters; jfk has both from hq."""
    for name in MASTERS:
        run(sites[name], "CREATE TABLE parts (id int PRIMARY KEY, qty int)")
    found_group(sites, *MASTERS)
    groups.add_table(sites["hq"], GROUP, "parts")
    for name in MASTERS:
        for table in ("orders", "parts"):
            masters.create_snapshot_log(sites[name], table)
            rules.set_column_group(sites[name], table, "stock", ["qty"])
            rules.add_update_resolution(sites[name], table, "stock", "additive")
    run(
        sites["hq"],
        "INSERT INTO orders (id, qty) VALUES (1, 0)",
        "INSERT INTO parts VALUES (1, 0)",
    )
    push_among(sites, *MASTERS)
    for table in ("orders", "parts"):
        snapshots.create(sites["jfk"], table, master="hq", updatable=True)
        refresh(sites["jfk"], table)


def sums(sites: Directory) -> dict[str, tuple[object, object]]:
    return {
        name: (rows(sites[name])[0][2], rows(sites[name], "parts")[0][1])
        for name in MASTERS
    }


def all_of(orders: int, parts: int) -> dict[str, tuple[object, object]]:
    return dict.fromkeys(MASTERS, (orders, parts))


def test_parts_that_go_two_ways_come_both(world: Directory) -> None:
    """One of two snapshots is switched; a transaction that waits changed both."""
    jfk = world["jfk"]
    run(jfk, ADD.format(1), ADD_PARTS.format(7))
    with without(world, "hq") as left:
        groups.switch_master(left["jfk"], "orders", to="lax")
        push_among(left, "jfk", "lax", "bos")
    run(jfk, ADD.format(10), ADD_PARTS.format(70))
    push_all(world)
    assert sums(world) == all_of(11, 77)


def test_part_that_came_another_way_does_not_stand_for_the_other(
    world: Directory,
) -> None:
    """Parts came by lax; orders went to hq alone, and are switched without it."""
    jfk = world["jfk"]
    groups.switch_master(jfk, "parts", to="lax")
    run(jfk, ADD.format(1), ADD_PARTS.format(7))
    deferred.push(jfk, "lax")
    push_among(world, "lax", "bos")
    deferred.push(jfk, "hq")
    with without(world, "hq") as left:
        groups.switch_master(left["jfk"], "orders", to="bos")
        push_among(left, "jfk", "lax", "bos")
    push_all(world)
    assert sums(world) == all_of(1, 7)


@pytest.mark.parametrize("copied", [True, False], ids=["join", "add"])
def test_new_master_may_have_what_came_before_it(
    world: Directory, *, copied: bool
) -> None:
    """Its rows are those of a master to which a change had come: no rule adds it."""
    hq, jfk, bos = (world[name] for name in ("hq", "jfk", "bos"))
    groups.remove_master(hq, GROUP, "bos")
    run(jfk, ADD.format(10))
    push_all(world)
    if copied:
        run(bos, "DELETE FROM orders", "DELETE FROM parts")
        groups.join_master(hq, GROUP, "bos")
    else:
        run(bos, "UPDATE orders SET qty = 10")
        groups.add_master(hq, GROUP, "bos")
    with without(world, "hq") as left:
        groups.switch_master(left["jfk"], "orders", to="bos")
        run(left["jfk"], ADD.format(100))
        push_among(left, "jfk", "lax", "bos")
        # What nobody knows for certain is left to a person, and what builds on it.
        first, then = sorted(one.id for one in deferred.list_errors(left["bos"]))
        deferred.delete_errors(left["bos"], [first])
        [report] = deferred.retry_errors(left["bos"], [then])
        assert report.applied, report.reason
    push_all(world)
    assert sums(world) == all_of(110, 0)


def test_what_a_restored_master_gets_again_it_sends_on_to_nobody_again(
    world: Directory, clone: Clone
) -> None:
    """It had sent it on; restored, it gets it from the site a second time."""
    urls = {
        name: site.url.set(drivername="postgresql").render_as_string(
            hide_password=False
        )
        for name, site in world.items()
    }

    @retry(retry=retry_if_exception_type(OperationalError), stop=stop_after_delay(90))
    def copy(url: str) -> str:
        world.close()
        return clone(url.rpartition("/")[2], "hq")

    run(world["jfk"], ADD.format(1))
    push_all(world)
    backup = copy(urls["hq"])
    run(world["jfk"], ADD.format(10), ADD_PARTS.format(7))
    deferred.push(world["jfk"])
    deferred.push(world["hq"], "lax")
    run(world["jfk"], ADD.format(100))
    push_all(world)
    assert sums(world) == all_of(111, 7)
    restored = Directory(urls | {"hq": backup})
    try:
        repair(restored["hq"])
        run(restored["jfk"], ADD.format(1000))
        push_all(restored)
        assert sums(restored) == all_of(1111, 7)
        run(restored["jfk"], ADD.format(10000))
        push_all(restored)
        assert sums(restored) == all_of(11111, 7)
    finally:
        restored.close()
