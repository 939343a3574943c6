"""Masters of a replication group, as tests of several masters need them."""

import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

import deferred
import groups
import masters
import snapshots
from deferred.pushing.push import destinations
from deferred.queues.queue import list_queues, undelivered_calls
from groups.group import Group, get
from groups.relay.arrivals import arrivals
from masters import rules
from sites import Directory, Site, faults
from sites.errors import SiteUnreachable
from sites.faults import InjectedFault
from tests.linked_table import ORDERS, rows, run
from tests.stories import refresh

GROUP = "sales"

#: The masters of most groups.
THREE = ("hq", "lax", "bos")


def found_group(
    sites: Mapping[str, Site],
    *masters: str,
    via: Mapping[str, str] | None = None,
    tables: Sequence[str] = ("orders",),
) -> Group:
    """Make a group of the table orders, which is made where it is not there.

    Parameters:
        masters: the first is the master definition site.
        via: of a master, the one that it exchanges changes with; all by default.
        tables: the tables of the group; others than orders are there.
    """
    home, *others = (sites[name] for name in masters)
    for name in masters:
        run(sites[name], f"CREATE TABLE IF NOT EXISTS orders ({ORDERS})")
    group: Group = groups.create_group(home, GROUP)
    for table in tables:
        group = groups.add_table(home, GROUP, table)
    for other in others:
        neighbour = (via or {}).get(other.name)
        group = groups.add_master(home, GROUP, other.name, via=neighbour)
    return group


def found_adding_up(sites: Mapping[str, Site], rows: int) -> None:
    """Three masters whose quantities add up, with rows; an updatable snapshot of hq."""
    found_group(sites, *THREE)
    for name in THREE:
        masters.create_snapshot_log(sites[name], "orders")
        rules.set_column_group(sites[name], "orders", "stock", ["qty"])
        rules.add_update_resolution(sites[name], "orders", "stock", "additive")
    run(
        sites["hq"],
        f"INSERT INTO orders (id, qty) SELECT n, 0 FROM generate_series(1, {rows}) n",
    )
    push_all({name: sites[name] for name in THREE})
    snapshots.create(sites["jfk"], "orders", master="hq", updatable=True)
    refresh(sites["jfk"], "orders")


def found_with_ten_rows(sites: Mapping[str, Site]) -> None:
    """A group of hq and lax, whose ten rows are pushed; bos has the table alone."""
    found_group(sites, "hq", "lax")
    run(
        sites["hq"],
        "INSERT INTO orders (id, qty) SELECT n, 0 FROM generate_series(1, 10) n",
    )
    push_all(sites)
    run(sites["bos"], f"CREATE TABLE orders ({ORDERS})")


@contextmanager
def broken_off_at(point: str, *, time: int = 1) -> Iterator[None]:
    """Let what the block does end with an error when it gets to a fault point.

    Parameters:
        time: at which time it gets there.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(faults, "_hits", Counter())
        patch.setenv("SNAPTIDE_FAULT", f"{point}:error:{time}")
        with pytest.raises(InjectedFault):
            yield


def push_all(sites: Mapping[str, Site]) -> int:
    """Push everywhere until nothing moves; says how many transactions did."""
    moved = 0
    while True:
        now = sum(
            deferred.push(site, to).transactions
            for site in sites.values()
            for to in destinations(site)
        )
        if not now:
            return moved
        moved += now


@contextmanager
def without(sites: Directory, name: str) -> Iterator[Directory]:
    """The same sites, as they see each other when nobody can reach one of them."""
    urls = {one.name: one.url for one in sites.values()}
    left = Directory(urls | {name: urls[name].set(host="127.0.0.1", port=1, query={})})
    with pytest.raises(SiteUnreachable), left[name].connect():
        pass
    try:
        yield left
    finally:
        left.close()


def push_among(sites: Directory, *names: str) -> None:
    """Push between these sites until nothing moves."""
    while sum(
        deferred.push(sites[name], to).transactions
        for name in names
        for to in destinations(sites[name])
        if to in names
    ):
        pass


def group_id(site: Site) -> uuid.UUID:
    """The id of the group, which all its masters know."""
    with site.transaction() as connection:
        return get(connection, site.name, GROUP).id


def arrived(site: Site) -> dict[str, tuple[str, int]]:
    """By master at which changes began, who brought them here, and how many."""
    with site.transaction() as connection:
        found = arrivals(connection, group_id(site))
    assert len({one.source for one in found}) == len(found), "two ways"
    assert site.name not in {one.source for one in found}, "a circle"
    return {one.source: (one.sender, one.transactions) for one in found}


def assert_masters_equal(
    sites: Mapping[str, Site], *masters: str
) -> list[tuple[Any, ...]]:
    """Hold all masters against the first; its rows are returned.

    Nothing may wait on the way, nor in an error queue: it could be what differs.
    """
    first, *others = masters
    expected = rows(sites[first])
    for name in masters:
        assert deferred.list_errors(sites[name]) == [], name
        with sites[name].transaction() as connection:
            for way in list_queues(connection):
                assert undelivered_calls(connection, way) == 0, (name, way.destination)
    for name in others:
        assert rows(sites[name]) == expected, name
    return expected
