"""A transaction changed snapshots of two masters, and those of one are switched."""

from collections.abc import Callable

import pytest

import deferred
import groups
import masters
import snapshots
from deferred.batches import marker
from deferred.batches.cut import next_batch
from deferred.errors import BothDestinations
from sites import Directory, Site
from sites.sessions import identity
from tests.fix_worlds import prepared_once
from tests.grouped import (
    assert_masters_equal,
    found_group,
    push_all,
    push_among,
    without,
)
from tests.linked_table import rows, run
from tests.stories import assert_equal_to_master, refresh

pytestmark = pytest.mark.usefixtures("spark")

ADD = "UPDATE orders SET qty = qty + {} WHERE id = 1"
ADD_PARTS = "UPDATE parts SET qty = qty + {} WHERE id = 1"


@prepared_once("hq", "lax", "jfk", needs="spark")
def world(sites: Directory) -> None:
    """Orders are a snapshot of hq, which replicates with lax; parts are one of lax."""
    found_group(sites, "hq", "lax")
    for name in ("hq", "lax"):
        masters.create_snapshot_log(sites[name], "orders")
    run(sites["hq"], "INSERT INTO orders (id, qty) VALUES (1, 0)")
    deferred.push(sites["hq"], "lax")
    run(
        sites["lax"],
        "CREATE TABLE parts (id int PRIMARY KEY, qty int)",
        "INSERT INTO parts VALUES (1, 0)",
    )
    masters.create_snapshot_log(sites["lax"], "parts")
    for table, master in (("orders", "hq"), ("parts", "lax")):
        snapshots.create(sites["jfk"], table, master=master, updatable=True)
        refresh(sites["jfk"], table)
    # From then on batches to lax are numbered from where it stands.
    run(sites["jfk"], ADD_PARTS.format(100))
    deferred.push(sites["jfk"], "lax")


def at_master(site: Site) -> tuple[object, object]:
    """The quantities of the one order, and of the one part."""
    return rows(site)[0][2], rows(site, "parts")[0][1]


def test_its_other_part_is_brought_before(world: Directory) -> None:
    jfk = world["jfk"]
    run(jfk, ADD.format(1), ADD_PARTS.format(7))
    deferred.push(jfk, "hq")
    assert groups.switch_master(jfk, "orders", to="lax").next_refresh == "fast"
    run(jfk, ADD.format(10), ADD_PARTS.format(70))
    push_all(world)
    assert at_master(world["lax"]) == (11, 177)
    assert_masters_equal(world, "hq", "lax")
    snapshots.refresh(jfk, "orders")
    snapshots.refresh(jfk, "parts")
    assert at_master(jfk) == (11, 177)


@pytest.mark.parametrize("cut", [False, True], ids=["queued", "cut"])
def test_without_the_former_master_its_other_part_is_asked_for(
    world: Directory, cut: bool
) -> None:
    """It came to the new one through the former one, which is gone."""
    jfk = world["jfk"]
    run(jfk, ADD.format(1), ADD_PARTS.format(7))
    deferred.push(jfk, "hq")
    deferred.push(world["hq"], "lax")
    if cut:
        assert cut_batch(world, calls=100) == 2
    with without(world, "hq") as left:
        with pytest.raises(BothDestinations, match="push to lax first"):
            groups.switch_master(left["jfk"], "orders", to="lax")
        deferred.push(left["jfk"], "lax")
        assert groups.switch_master(left["jfk"], "orders", to="lax").settled == 1
        push_among(left, "jfk", "lax")
        assert at_master(left["lax"]) == (1, 107)
    push_all(world)
    snapshots.refresh(jfk, "orders")
    snapshots.refresh(jfk, "parts")
    assert_masters_equal(world, "hq", "lax")
    assert_equal_to_master(jfk)


def cut_batch(world: Directory, calls: int) -> int:
    """Cut the next batch to lax, as a push that dies then; says its number."""
    with world["jfk"].transaction() as origin, world["lax"].session() as target:
        at = marker.read(target, identity.read(origin).site_id)
        cut = next_batch(origin, "lax", at, calls)
        assert cut is not None
        batch, _ = cut
        return batch.number


def test_what_no_batch_has_yet_gets_its_place_by_all_its_calls(
    world: Directory,
) -> None:
    """It was in a window to the new master, for the other snapshot alone."""
    jfk = world["jfk"]
    run(jfk, ADD_PARTS.format(7))
    run(jfk, ADD_PARTS.format(70), ADD.format(1))
    cut_batch(world, calls=1)
    with without(world, "hq") as left:
        groups.switch_master(left["jfk"], "orders", to="lax")
        waiting = (
            "SELECT calls FROM snaptide.delivery"
            " WHERE destination = 'lax' AND batch IS NULL"
        )
        assert run(jfk, waiting) == [(2,)]
        push_among(left, "jfk", "lax")
        assert at_master(left["lax"]) == (1, 177)


def test_two_snapshots_of_one_table_get_one_master(
    make_sites: Callable[..., Directory],
) -> None:
    """Each master has half of a transaction's changes of the table, and sends it on."""
    sites = make_sites("hq", "lax", "jfk")
    hq, lax, jfk = (sites[name] for name in ("hq", "lax", "jfk"))
    found_group(sites, "hq", "lax")
    for site in (hq, lax):
        masters.create_snapshot_log(site, "orders")
    run(hq, "INSERT INTO orders (id, qty) VALUES (1, 0), (2, 0)")
    deferred.push(hq, "lax")
    for name, master in (("one", "hq"), ("two", "lax")):
        snapshots.create(jfk, name, table="orders", master=master, updatable=True)
        refresh(jfk, name)
    run(
        jfk,
        "UPDATE one SET qty = 1 WHERE id = 1",
        "UPDATE two SET qty = 2 WHERE id = 2",
    )
    deferred.push(jfk, "hq")
    refused = pytest.raises(BothDestinations, match="through one and two")
    with without(sites, "hq") as left, refused:
        groups.switch_master(left["jfk"], "one", to="lax")
    push_all(sites)
    assert groups.switch_master(jfk, "one", to="lax").next_refresh == "fast"
    push_all(sites)
    found = assert_masters_equal(sites, "hq", "lax")
    assert [row[2] for row in found] == [1, 2]


@pytest.mark.parametrize("sent", [False, True], ids=["queued", "sent"])
@pytest.mark.parametrize("second", ["hq", "bos"])
def test_two_snapshots_of_one_table_keep_another_master(
    make_sites: Callable[..., Directory], second: str, sent: bool
) -> None:
    """The new master would get half of a transaction from here, half from another."""
    sites = make_sites("hq", "lax", "bos", "jfk")
    jfk = sites["jfk"]
    found_group(sites, "hq", "lax", "bos")
    for name in ("hq", "lax", "bos"):
        masters.create_snapshot_log(sites[name], "orders")
    run(sites["hq"], "INSERT INTO orders (id, qty) VALUES (1, 0), (2, 0)")
    push_among(sites, "hq", "lax", "bos")
    for name, master in (("one", "hq"), ("two", second)):
        snapshots.create(jfk, name, table="orders", master=master, updatable=True)
        refresh(jfk, name)
    run(
        jfk,
        "UPDATE one SET qty = 1 WHERE id = 1",
        "UPDATE two SET qty = 2 WHERE id = 2",
    )
    for name in {"hq", second} if sent else ():
        deferred.push(jfk, name)
    refused = pytest.raises(BothDestinations, match="through one and two")
    with without(sites, "hq") as left, refused:
        groups.switch_master(left["jfk"], "one", to="lax")
    push_all(sites)
    assert groups.switch_master(jfk, "one", to="lax").next_refresh == "fast"
    push_all(sites)
    found = assert_masters_equal(sites, "hq", "lax", "bos")
    assert [row[2] for row in found] == [1, 2]
