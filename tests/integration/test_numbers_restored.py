"""No number is leased or drawn twice, whatever is restored, copied or switched."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

import deferred
import groups
import snapshots
from masters.numbers import ledger
from masters.numbers.ranges import Stretch
from sites import Directory, Site
from sites.errors import SiteChanged, SiteRestored
from sites.names import QualifiedName
from sites.sessions import identity
from snaptide.repair import repair
from tests.fix_db import Clone
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.grouped import broken_off_at
from tests.linked_table import parked, run
from tests.numbered import NumberedWorld
from tests.pushing import end_push, start_push


@prepared_once("hq", "jfk", "lga", needs="spark")
def shops(sites: Directory) -> None:
    """A table whose numbers two sites lease."""
    run(sites["hq"], "CREATE TABLE public.orders (id serial PRIMARY KEY, shop text)")
    log(sites["hq"], "orders")
    for name in ("jfk", "lga"):
        snapshots.create(sites[name], "orders", master="hq", updatable=True)
        snapshots.refresh(sites[name], "orders")


@pytest.fixture
def world(shops: Directory, clone: Clone) -> Iterator[NumberedWorld]:
    made = NumberedWorld(shops, clone)
    yield made
    made.directory.close()


def test_restored_site_does_not_use_its_leases(world):
    world.insert("jfk", 5)
    backup = world.backup("jfk")
    world.insert("jfk", 5)
    deferred.push(world["jfk"])
    world.restore("jfk", backup)
    refused = _refused(world["jfk"])
    assert refused.sqlstate == "55000"
    assert "snaptide site check jfk --repair" in str(refused.diag.message_hint)
    repair(world["jfk"])
    assert _refused(world["jfk"]).sqlstate == "2200H"
    deferred.push(world["jfk"])
    world.insert("jfk", 5)
    world.insert("hq", 5)
    assert deferred.push(world["jfk"]).errors == 0
    world.assert_no_number_twice()


def test_rollback_that_nobody_can_notice_offline_is_found_by_the_push(world):
    first = world.insert("jfk", 5)
    backup = world.backup("jfk")
    world.insert("jfk", 5)
    deferred.push(world["jfk"])
    world.restore("jfk", backup, noticed=False)
    again = run(world["jfk"], "INSERT INTO orders (shop) VALUES ('again') RETURNING id")
    assert again == [(first[-1] + 1,)]
    with pytest.raises(SiteRestored):
        deferred.push(world["jfk"])
    repair(world["jfk"])
    assert _refused(world["jfk"]).sqlstate == "2200H"
    assert deferred.push(world["jfk"]).errors == 1
    assert len(parked(world["hq"])) == 1
    world.insert("jfk", 5)
    assert deferred.push(world["jfk"]).errors == 0
    world.assert_no_number_twice()


def test_copy_has_no_numbers_until_it_is_a_site_of_its_own(world):
    world.insert("jfk", 5)
    world.urls["ord"] = world.clone(world.backup("jfk"), "ord")
    world.directory = Directory(world.urls)
    assert _refused(world["ord"]).sqlstate == "55000"
    world.insert("jfk", 5)
    report = repair(world["ord"])
    assert report.copy_of == "jfk"
    assert _refused(world["ord"]).sqlstate == "2200H"
    deferred.push(world["ord"])
    for name in ("ord", "jfk", "hq", "ord"):
        world.insert(name, 5)
    for name in ("ord", "jfk"):
        assert deferred.push(world[name]).errors == 0
    world.assert_no_number_twice()
    holders = "SELECT DISTINCT site_name FROM snaptide.number_lease ORDER BY 1"
    assert run(world["hq"], holders) == [("jfk",), ("lga",), ("ord",)]


def test_restored_master_asks_sites_what_they_have_leased(world):
    backup = world.backup("hq")
    world.insert("jfk", 1500)
    deferred.push(world["jfk"])
    world.insert("jfk", 600)
    world.restore("hq", backup)
    with pytest.raises(SiteChanged):
        deferred.push(world["jfk"])
    assert repair(world["hq"]).numbers_unknown == ()
    world.insert("hq", 5)
    world.insert("lga", 1500)
    assert deferred.push(world["lga"]).errors == 0
    world.insert("lga", 600)
    world.insert("jfk", 600)
    for name in ("lga", "jfk"):
        assert deferred.push(world[name]).errors == 0
    world.assert_no_number_twice()


@pytest.mark.parametrize("within", [True, False])
def test_lease_that_overlaps_one_of_another_site_is_noted_to_its_end(world, within):
    """A restored master gave its first numbers again, before it was told of it.

    The next lease of such a master begins where the first that it lost began.
    """
    table = QualifiedName("public", "orders")
    holder = {}
    for name in ("jfk", "lga"):
        with world[name].transaction() as connection:
            holder[name] = identity.read(connection)
    with world["hq"].transaction() as connection:
        [given] = ledger.grant(connection, holder["lga"], table, "id", 100)
        first = given.last - 9 if within else given.first
        told = Stretch(first=first, last=given.last + 5000, step=1)
        ledger.record(connection, holder["jfk"], table, "id", [told])
        ledger.record(connection, holder["jfk"], table, "id", [told])
        after = ledger.grant(connection, holder["lga"], table, "id", 100)
        noted = "SELECT count(*) FROM snaptide.number_lease WHERE last = :last"
        assert connection.scalar(text(noted), {"last": told.last}) == 1
    assert min(one.first for one in after) > told.last


def test_restored_master_hears_at_the_next_contact_from_a_site_that_was_away(world):
    backup = world.backup("hq")
    world.insert("jfk", 1500)
    deferred.push(world["jfk"])
    world.restore("hq", backup)
    away = dict(world.urls)
    away["jfk"] = str(make_url(away["jfk"]).set(database="no_such_database_here"))
    partly = Directory(away)
    told = repair(partly["hq"]).numbers_unknown
    partly.close()
    assert len(told) == 1
    assert told[0].startswith("jfk was not asked")
    deferred.push(world["jfk"])
    world.insert("hq", 5)
    world.insert("lga", 1500)
    deferred.push(world["lga"])
    world.insert("lga", 600)
    world.insert("jfk", 600)
    for name in ("lga", "jfk"):
        assert deferred.push(world[name]).errors == 0
    world.assert_no_number_twice()


def test_sequence_that_was_set_back_gives_no_leased_number(world):
    world.insert("jfk", 1500)
    run(world["hq"], "ALTER SEQUENCE orders_id_seq RESTART")
    deferred.push(world["jfk"])
    world.insert("jfk", 600)
    world.insert("hq", 5)
    assert deferred.push(world["jfk"]).errors == 0
    world.assert_no_number_twice()


@pytest.mark.parametrize("step", [1, -1])
def test_other_sequence_of_a_column_gives_no_leased_number(world, step):
    world.insert("jfk", 1500)
    run(
        world["hq"],
        "CREATE SEQUENCE other_seq AS int MINVALUE -100000 MAXVALUE 100000"
        f" INCREMENT BY {step} START WITH {1500 - 1400 * step}",
        "ALTER TABLE orders ALTER id SET DEFAULT nextval('other_seq')",
    )
    for _ in range(4):
        deferred.push(world["jfk"])
        world.insert("jfk", 600)
    world.insert("hq", 5)
    assert deferred.push(world["jfk"]).errors == 0
    world.assert_no_number_twice()


@pytest.mark.parametrize(
    "point",
    [f"numbers.{one}" for one in ("before_lease", "after_lease", "after_meet")]
    + ["numbers.before_store", "numbers.after_store"],
)
def test_killed_while_numbers_are_leased(world, point):
    world.insert("jfk", 1200)
    push = start_push(world.directory, f"{point}:kill")
    world.insert("hq", 5)
    status, _ = end_push(push, world.directory)
    assert status == -signal.SIGKILL
    assert deferred.push(world["jfk"]).errors == 0
    for name in ("jfk", "lga", "hq"):
        world.insert(name, 1200)
    assert deferred.push(world["jfk"]).errors == 0
    assert deferred.push(world["lga"]).errors == 0
    world.assert_no_number_twice()


def test_broken_off_while_numbers_are_given_back(world):
    """The site uses none of them any more; the master does not know that yet."""
    world.insert("jfk", 5)
    with broken_off_at("numbers.after_end"):
        snapshots.return_numbers(world["jfk"], "orders.id")
    assert _refused(world["jfk"]).sqlstate == "2200H"
    assert deferred.push(world["jfk"]).errors == 0
    for name in ("jfk", "lga", "hq"):
        world.insert(name, 5)
    world.assert_no_number_twice()


def test_broken_off_while_the_way_to_number_changes(world):
    with broken_off_at("snapshot_alter.before_numbers"):
        snapshots.alter_numbers(world["jfk"], "orders", {"id": "none"})
    world.insert("jfk", 5)
    assert deferred.push(world["jfk"]).errors == 0
    world.assert_no_number_twice()


def test_tables_of_a_group_need_numbers_that_no_other_master_has(make_sites):
    sites = make_sites("hq", "lax", "jfk")
    for place, name in enumerate(("hq", "lax"), 1):
        run(
            sites[name],
            f"CREATE SEQUENCE public.s START {place}",
            "CREATE TABLE public.t (id bigint PRIMARY KEY DEFAULT nextval('public.s'),"
            " v int)",
        )
    groups.create_group(sites["hq"], "sales")
    groups.add_table(sites["hq"], "sales", "t")
    groups.add_master(sites["hq"], "sales", "lax")
    jfk = sites["jfk"]
    log(sites["hq"], "t")
    log(sites["lax"], "t")
    made = snapshots.create(jfk, "t", master="hq", updatable=True)
    assert made.numbers == {}
    assert any("INCREMENT BY 8" in one for one in made.left_out)
    for place, name in enumerate(("hq", "lax"), 1):
        run(sites[name], f"ALTER SEQUENCE public.s INCREMENT BY 8 RESTART WITH {place}")
    snapshots.refresh(jfk, "t")
    assert snapshots.alter_numbers(jfk, "t", {"id": "lease"})[0].left == 2000
    insert = "INSERT INTO t (v) SELECT 1 FROM generate_series(1, {}) RETURNING id"
    drawn = run(jfk, insert.format(2))
    groups.switch_master(jfk, "t", to="lax")
    drawn += run(jfk, insert.format(1500))
    deferred.push(jfk)
    drawn += run(jfk, insert.format(1500))
    drawn += run(sites["hq"], insert.format(5)) + run(sites["lax"], insert.format(5))
    assert len(drawn) == len({*drawn})
    assert {row[0] % 8 for row in drawn} == {1, 2}


def _refused(site: Site) -> psycopg.Error:
    with site.connect() as connection, pytest.raises(DBAPIError) as refused:
        connection.exec_driver_sql("INSERT INTO orders (shop) VALUES ('x')")
    assert isinstance(refused.value.orig, psycopg.Error)
    return refused.value.orig
