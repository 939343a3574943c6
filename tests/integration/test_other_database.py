"""Changes go to the database that they were queued for, whatever has its name now."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from functools import partial

import pytest

import deferred
import groups
import snapshots
from sites import Directory, OtherDatabase, Site
from snapshots.definitions.errors import MasterUnreachable
from snapshots.refreshing import former
from snaptide.repair import repair
from tests.fix_db import Clone
from tests.fix_sites import log
from tests.grouped import (
    GROUP,
    assert_masters_equal,
    found_group,
    push_all,
    without,
)
from tests.linked_table import ORDERS, link, parked, queued, rows, run
from tests.stories import assert_equal_to_master, push_and_refresh, refresh

COLUMNS = "id int PRIMARY KEY, name text, qty int"


@pytest.fixture
def elsewhere(
    make_sites: Callable[..., Directory], sites: Directory
) -> Iterator[Directory]:
    """The same site jfk, where the name hq leads to another database."""
    other = make_sites("hq")["hq"]
    run(other, f"CREATE TABLE orders ({COLUMNS})")
    log(other, "orders")
    with Directory({"hq": other.url, "jfk": sites["jfk"].url}) as directory:
        yield directory


def start(*sites: Site) -> None:
    for site in sites:
        run(site, "INSERT INTO orders VALUES (1, 'a', 1), (2, 'b', 2)")


@pytest.mark.parametrize("repaired", [False, True])
def test_another_database_of_the_same_name_gets_nothing(
    sites: Directory, elsewhere: Directory, repaired: bool
) -> None:
    """Its rows may be the same, as those of a system for tests are."""
    link(sites, "orders", COLUMNS)
    start(sites["jfk"], elsewhere["hq"])
    deferred.push(sites["jfk"])
    if repaired:
        repair(sites["jfk"], restored=True)
    run(sites["jfk"], "UPDATE orders SET qty = 5 WHERE id = 2")
    with pytest.raises(OtherDatabase, match="hq leads to another database") as refused:
        deferred.push(elsewhere["jfk"])
    assert refused.value.facts == {"site": "hq"}
    assert rows(elsewhere["hq"]) == [(1, "a", 1), (2, "b", 2)]
    assert queued(sites["jfk"]) == 1
    report = deferred.push(sites["jfk"])
    assert (report.transactions, parked(sites["hq"])) == (1, [])
    assert rows(sites["hq"]) == [(1, "a", 1), (2, "b", 5)]


def test_another_database_of_the_name_of_a_master_gets_nothing(
    make_sites: Callable[..., Directory],
) -> None:
    """It is no master of the group before it has joined it."""
    sites = make_sites("hq", "lax")
    hq = sites["hq"]
    found_group(sites, "hq", "lax")
    run(hq, "INSERT INTO orders (id) VALUES (1)")
    push_all(sites)
    run(hq, "INSERT INTO orders (id) VALUES (2)")
    other = make_sites("lax")["lax"]
    run(other, f"CREATE TABLE orders ({ORDERS})")
    with Directory({"hq": hq.url, "lax": other.url}) as elsewhere:
        with pytest.raises(OtherDatabase):
            deferred.push(elsewhere["hq"])
        assert rows(elsewhere["lax"]) == []
        with without(elsewhere, "lax") as left:
            groups.forget_master(left["hq"], GROUP, "lax")
        groups.join_master(elsewhere["hq"], GROUP, "lax")
        run(hq, "INSERT INTO orders (id) VALUES (3)")
        push_all(elsewhere)
        assert len(assert_masters_equal(elsewhere, "hq", "lax")) == 3


@pytest.mark.usefixtures("spark")
def test_snapshots_of_a_lost_database_are_made_anew(
    sites: Directory, elsewhere: Directory
) -> None:
    """As the error says: then changes go to the database that has the name."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, f"CREATE TABLE orders ({COLUMNS})")
    log(hq, "orders")
    start(hq, elsewhere["hq"])
    snapshots.create(jfk, "orders", master="hq", updatable=True)
    refresh(jfk, "orders")
    run(jfk, "UPDATE orders SET qty = 5 WHERE id = 2")
    for act in (refresh, push_and_refresh):
        with pytest.raises(OtherDatabase):
            act(elsewhere["jfk"], "orders")
    assert queued(jfk) == 1
    snapshots.drop(elsewhere["jfk"], "orders", force=True)
    snapshots.create(elsewhere["jfk"], "orders", master="hq", updatable=True)
    refresh(elsewhere["jfk"], "orders")
    run(jfk, "UPDATE orders SET qty = 6 WHERE id = 1")
    assert push_and_refresh(elsewhere["jfk"], "orders").transactions == 1
    assert_equal_to_master(elsewhere["jfk"])
    assert rows(hq) == [(1, "a", 1), (2, "b", 2)]


Stranger = Callable[[Directory], AbstractContextManager[Directory]]
REGISTERED = "SELECT snapshot FROM snaptide.registered_snapshot"


@pytest.fixture(params=["another", "copy"])
def with_stranger(
    request: pytest.FixtureRequest,
    make_sites: Callable[..., Directory],
    clone: Clone,
) -> Stranger:
    """The same sites, where the name hq leads to another database, or to a copy."""

    @contextmanager
    def made(sites: Directory) -> Iterator[Directory]:
        hq = sites["hq"].url
        if request.param == "another":
            hq = make_sites("hq")["hq"].url
        else:
            for site in sites.values():
                site.close()
            copied = clone(str(hq.database)).rpartition("/")[2]
            hq = hq.set(database=copied)
        urls = {one.name: one.url for one in sites.values()}
        with Directory(urls | {"hq": hq}) as directory:
            yield directory

    return made


@pytest.mark.usefixtures("spark")
def test_a_snapshot_is_not_unregistered_at_another_database(
    sites: Directory, with_stranger: Stranger
) -> None:
    """The master would keep its log for ever, for a snapshot that is not there."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, f"CREATE TABLE orders ({COLUMNS})")
    log(hq, "orders")
    snapshots.create(jfk, "orders", master="hq", updatable=True)
    refresh(jfk, "orders")
    with (
        with_stranger(sites) as strange,
        pytest.raises(MasterUnreachable, match="would keep its log"),
    ):
        snapshots.drop(strange["jfk"], "orders")
    assert run(hq, REGISTERED) == [("orders",)]
    snapshots.drop(jfk, "orders")
    assert run(hq, REGISTERED) == []


def test_where_an_empty_database_has_the_masters_name_force_drops(
    sites: Directory,
) -> None:
    """As if nobody answered: that is all that is left of a master that was lost."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, f"CREATE TABLE orders ({COLUMNS})")
    log(hq, "orders")
    snapshots.create(jfk, "orders", master="hq", updatable=True)
    with Directory({"hq": hq.url.set(database="postgres"), "jfk": jfk.url}) as lost:
        with pytest.raises(MasterUnreachable, match="has no schema snaptide"):
            snapshots.drop(lost["jfk"], "orders")
        snapshots.drop(lost["jfk"], "orders", force=True)
    assert snapshots.list_snapshots(jfk) == []


@pytest.mark.usefixtures("spark")
def test_a_former_master_is_told_when_it_has_its_name_again(
    make_sites: Callable[..., Directory], with_stranger: Stranger
) -> None:
    sites = make_sites("hq", "lax", "jfk")
    hq, jfk = sites["hq"], sites["jfk"]
    found_group(sites, "hq", "lax")
    log(hq, "orders")
    log(sites["lax"], "orders")
    snapshots.create(jfk, "orders", master="hq", updatable=True)
    refresh(jfk, "orders")
    told = partial(former.unregister_at_former, pause=timedelta())
    with with_stranger(sites) as strange:
        report = groups.switch_master(strange["jfk"], "orders", to="lax")
        assert not report.unregistered
        assert told(strange["jfk"]) == ["hq"]
    assert run(hq, REGISTERED) == [("orders",)]
    assert told(jfk) == []
    assert run(hq, REGISTERED) == []
