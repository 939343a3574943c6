"""A site whose clock was wrong is switched: each of its changes counts once."""

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

import deferred
import groups
from sites import Directory
from snaptide import migrate
from snaptide.embedded import PostgresServer
from tests.fix_clock import Clock
from tests.grouped import (
    THREE,
    assert_masters_equal,
    found_adding_up,
    push_all,
    push_among,
    without,
)
from tests.linked_table import rows, run

pytestmark = pytest.mark.usefixtures("spark")

ADD = "UPDATE orders SET qty = qty + {} WHERE id = {}"


@pytest.fixture
def world(
    make_sites: Callable[..., Directory], server_with_clock: PostgresServer
) -> Iterator[Directory]:
    """Three masters whose quantities add up; jfk, whose clock can be set."""
    made = make_sites(*THREE)
    urls = {
        name: site.url.set(drivername="postgresql").render_as_string(
            hide_password=False
        )
        for name, site in made.items()
    }
    sites = Directory(urls | {"jfk": server_with_clock.create_database("jfk")})
    migrate.upgrade(sites["jfk"])
    found_adding_up(sites, 4)
    yield sites
    sites.close()
    server_with_clock.drop_database("jfk")


@pytest.mark.parametrize(
    ("made", "switched"),
    [
        (timedelta(seconds=30), timedelta(0)),
        (timedelta(0), timedelta(days=-40)),
        (timedelta(days=-40), timedelta(days=-40)),
    ],
    ids=["ahead", "back", "behind"],
)
def test_each_change_counts_once(
    world: Directory, clock: Clock, made: timedelta, switched: timedelta
) -> None:
    """One is everywhere, one at the former master alone, one parked, one in the queue.

    Parameters:
        made: how wrong the clock is while the changes are made.
        switched: and when the site gets another master.
    """
    jfk = world["jfk"]
    run(world["hq"], "UPDATE orders SET name = 'hq' WHERE id = 3")
    clock.set(made)
    run(jfk, ADD.format(10, 1))
    deferred.push(jfk)
    deferred.push(world["hq"], "lax")
    run(jfk, ADD.format(100, 2))
    deferred.push(jfk)
    run(jfk, "UPDATE orders SET name = 'jfk', qty = 7 WHERE id = 3")
    assert deferred.push(jfk).errors == 1
    run(jfk, ADD.format(1000, 4))
    # Changed there meanwhile: only what is known to have come is not added again.
    run(world["lax"], *(ADD.format(1, n) for n in (1, 2, 4)))
    clock.set(switched)
    with without(world, "hq") as left:
        groups.switch_master(left["jfk"], "orders", to="lax")
        # By the site itself, too: what it forgets is not passed on.
        deferred.purge(left["jfk"])
        run(left["jfk"], ADD.format(10000, 4))
        push_among(left, "jfk", "lax", "bos")
    for name in THREE:
        errors = [one.id for one in deferred.list_errors(world[name])]
        deferred.delete_errors(world[name], errors)
        deferred.purge(world[name])
    push_all(world)
    found = assert_masters_equal(world, *THREE)
    assert {row[0]: row[2] for row in found if row[0] != 3} == {1: 11, 2: 101, 4: 11001}
    # And back, to one that has sent all on.
    clock.set(timedelta(0))
    run(jfk, ADD.format(5, 1))
    deferred.push(jfk)
    with without(world, "lax") as left:
        groups.switch_master(left["jfk"], "orders", to="hq")
        push_among(left, "jfk", "hq", "bos")
    push_all(world)
    found = assert_masters_equal(world, *THREE)
    assert {row[0]: row[2] for row in found if row[0] != 3} == {1: 16, 2: 101, 4: 11001}
    assert rows(world["hq"]) == rows(world["bos"])
