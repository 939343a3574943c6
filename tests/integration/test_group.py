"""A change at one master of a group goes to the others, by the way of any change."""

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

import deferred
import groups
from deferred.errors import RetryFailed
from groups.arrange import arrange
from groups.define import CREATION
from groups.errors import (
    CannotReplicate,
    GroupBusy,
    GroupExists,
    MasterExists,
    NoSuchGroup,
    NotDefinitionSite,
    TablesDiffer,
)
from groups.group import Master
from masters import rules
from sites import Directory, names
from sites.errors import SiteNotInitialised
from sites.tables import locks
from tests.fix_db import MakeDatabase
from tests.fix_worker import eventually
from tests.fix_worlds import prepared_once
from tests.grouped import GROUP, assert_masters_equal, found_group, push_all
from tests.let_go import WAITS
from tests.linked_table import calls, link, parked, queued, rows, run

ROW = "INSERT INTO orders VALUES (1, 'a', 1, 1.5, '2026-01-01')"


@prepared_once("hq", "lax", "jfk")
def two(sites: Directory) -> None:
    """Two masters of a group of one table, hq and lax, and the site jfk."""
    found_group(sites, "hq", "lax")


@prepared_once("hq", "lax", "jfk")
def linked(sites: Directory) -> None:
    """The same, and the table is linked from jfk to hq."""
    link(sites)
    found_group(sites, "hq", "lax")


@pytest.fixture
def apart(make_sites: Callable[..., Directory]) -> Directory:
    """The sites hq, lax and jfk without a group."""
    return make_sites("hq", "lax", "jfk")


def test_change_at_a_master_goes_to_the_other_and_not_back(two: Directory) -> None:
    run(two["hq"], ROW)
    assert push_all(two) == 1
    assert_masters_equal(two, "hq", "lax")
    assert calls(two["lax"]) == []
    run(two["lax"], "UPDATE orders SET qty = 7 WHERE id = 1")
    assert push_all(two) == 1
    assert_masters_equal(two, "hq", "lax")
    run(two["hq"], "DELETE FROM orders")
    assert push_all(two) == 1
    assert assert_masters_equal(two, "hq", "lax") == []
    assert [queued(two[name]) for name in ("hq", "lax")] == [0, 0]


def test_change_of_a_snapshot_site_goes_on_as_its_own_transaction(
    linked: Directory,
) -> None:
    run(linked["jfk"], ROW, "UPDATE orders SET qty = 2")
    run(linked["jfk"], "UPDATE orders SET qty = 3")
    [first, second] = run(
        linked["jfk"],
        "SELECT xid::text, start_time FROM snaptide.deferred_transaction"
        " ORDER BY order_no",
    )
    assert deferred.push(linked["jfk"], "hq").transactions == 2
    assert run(
        linked["hq"],
        "SELECT origin, origin_transaction, made_at FROM snaptide.deferred_transaction"
        " ORDER BY order_no",
    ) == [("jfk", *first), ("jfk", *second)]
    assert deferred.push(linked["hq"], "lax").transactions == 2
    assert_masters_equal(linked, "hq", "lax", "jfk")
    assert push_all(linked) == 0


def test_transactions_of_one_batch_go_on_one_by_one(linked: Directory) -> None:
    run(linked["jfk"], ROW)
    for n in range(20):
        run(linked["jfk"], f"UPDATE orders SET qty = {n}")
    deferred.push(linked["jfk"], "hq", batch_size=1000)
    assert queued(linked["hq"]) == 21
    deferred.push(linked["hq"], "lax")
    assert_masters_equal(linked, "hq", "lax", "jfk")


def test_what_a_trigger_writes_goes_on_whatever_is_committed_together(
    apart: Directory,
) -> None:
    link(apart, "notes")
    found_group(apart, "hq", "lax")
    run(
        apart["hq"],
        "CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN INSERT INTO public.orders (id) VALUES (NEW.id); RETURN NULL; END'",
        "CREATE TRIGGER noted AFTER INSERT ON notes"
        " FOR EACH ROW EXECUTE FUNCTION noted()",
    )
    for n in range(3):
        run(apart["jfk"], f"INSERT INTO notes (id) VALUES ({n})")
    assert deferred.push(apart["jfk"], "hq", batch_size=1000).errors == 0
    assert push_all(apart) == 3
    assert len(assert_masters_equal(apart, "hq", "lax")) == 3


def test_conflict_between_masters_is_settled_by_rules_of_each(two: Directory) -> None:
    for name in ("hq", "lax"):
        rules.set_column_group(two[name], "orders", "amount", ["qty"])
        rules.add_update_resolution(two[name], "orders", "amount", "additive")
    run(two["hq"], ROW)
    push_all(two)
    run(two["hq"], "UPDATE orders SET qty = qty + 10")
    run(two["lax"], "UPDATE orders SET qty = qty + 5")
    assert push_all(two) == 2
    assert [row[2] for row in assert_masters_equal(two, "hq", "lax")] == [16]


def test_conflict_that_no_rule_settles_is_parked_and_named_by_its_site(
    linked: Directory,
) -> None:
    run(linked["jfk"], ROW)
    push_all(linked)
    run(linked["lax"], "UPDATE orders SET qty = 99")
    run(linked["jfk"], "UPDATE orders SET qty = 5")
    deferred.push(linked["jfk"], "hq")
    assert deferred.push(linked["hq"], "lax").errors == 1
    [error] = deferred.list_errors(linked["lax"])
    assert (error.origin, error.reason) == ("jfk", "conflict")
    run(linked["lax"], "UPDATE orders SET qty = 1")
    assert [report.applied for report in deferred.retry_errors(linked["lax"])] == [True]
    assert [row[2] for row in rows(linked["lax"])] == [5]
    assert parked(linked["lax"]) == []


def test_purge_keeps_what_one_master_has_not_answered(apart: Directory) -> None:
    found_group(apart, "hq", "lax", "jfk")
    run(apart["hq"], ROW)
    deferred.push(apart["hq"], "lax")
    assert purged(apart) == 0
    deferred.push(apart["hq"], "jfk")
    assert purged(apart) == 1


def purged(sites: Directory) -> int:
    """Calls that a purge of hq removes, without any retention."""
    return deferred.purge(sites["hq"], retention=timedelta(0)).calls


def test_truncate_and_drop_column_are_refused(two: Directory) -> None:
    for statement in ("TRUNCATE orders", "ALTER TABLE orders DROP COLUMN qty"):
        with pytest.raises(
            psycopg.Error, match=r"cannot be truncated|cannot drop column"
        ):
            run(two["hq"], statement)


def test_two_of_one_name_at_once(apart: Directory) -> None:
    """The second waits until the first is there, or not."""
    hq = apart["hq"]
    group = groups.create_group(hq, "first")
    with ThreadPoolExecutor(1) as pool:
        with hq.transaction() as connection:
            locks.wait_turn(connection, CREATION, GROUP)
            arrange(connection, "hq", replace(group, name=GROUP, id=uuid.uuid4()))
            other = pool.submit(groups.create_group, hq, GROUP)
            eventually(lambda: run(hq, WAITS), what="the other one: to wait")
        with pytest.raises(GroupExists):
            other.result(timeout=60)


def test_a_master_gets_another_group_of_the_name_meanwhile(apart: Directory) -> None:
    hq, lax = apart["hq"], apart["lax"]
    group = groups.create_group(hq, GROUP)
    with ThreadPoolExecutor(1) as pool:
        with lax.transaction() as connection:
            locks.wait_turn(connection, CREATION, GROUP)
            other = replace(group, definition_site="lax", id=uuid.uuid4())
            arrange(connection, "lax", replace(other, masters=(Master(name="lax"),)))
            made = pool.submit(groups.add_master, hq, GROUP, "lax")
            eventually(lambda: run(lax, WAITS), what="the name: to be waited for")
        with pytest.raises(GroupExists):
            made.result(timeout=60)


def test_a_table_that_another_group_takes_meanwhile(two: Directory) -> None:
    hq, lax = two["hq"], two["lax"]
    for site in (hq, lax):
        run(site, "CREATE TABLE parts (id int PRIMARY KEY)")
    other = groups.create_group(lax, "others")
    parts = names.parse("parts")
    with ThreadPoolExecutor(1) as pool:
        with lax.transaction() as connection:
            locks.against_writers(connection, parts)
            arrange(connection, "lax", replace(other, tables=(parts,)))
            made = pool.submit(groups.add_table, hq, GROUP, "parts")
            eventually(lambda: run(lax, WAITS), what="the table: to be waited for")
        with pytest.raises(CannotReplicate, match="is in group others"):
            made.result(timeout=60)


def test_a_table_that_is_altered_until_it_is_locked(two: Directory) -> None:
    """The other master has one more column in the end."""
    hq, lax = two["hq"], two["lax"]
    for site in (hq, lax):
        run(site, "CREATE TABLE parts (id int PRIMARY KEY)")
    with ThreadPoolExecutor(1) as pool:
        with lax.transaction() as connection:
            connection.exec_driver_sql("ALTER TABLE public.parts ADD COLUMN size int")
            other = pool.submit(groups.add_table, hq, GROUP, "parts")
            eventually(lambda: run(lax, WAITS), what="the table: to be waited for")
        with pytest.raises(TablesDiffer, match="size"):
            other.result(timeout=60)


def test_what_is_refused(two: Directory) -> None:
    run(two["jfk"], "CREATE TABLE orders (id int PRIMARY KEY, qty bigint)")
    run(two["hq"], "CREATE TABLE keyless (a int)")
    with pytest.raises(GroupExists):
        groups.create_group(two["hq"], GROUP)
    with pytest.raises(NotDefinitionSite):
        groups.add_table(two["lax"], GROUP, "orders")
    with pytest.raises(NoSuchGroup):
        groups.add_table(two["jfk"], GROUP, "orders")
    with pytest.raises(MasterExists):
        groups.add_master(two["hq"], GROUP, "lax")
    with pytest.raises(TablesDiffer, match="no column name"):
        groups.add_master(two["hq"], GROUP, "jfk")
    groups.create_group(two["hq"], "other")
    with pytest.raises(CannotReplicate, match="is in group sales"):
        groups.add_table(two["hq"], "other", "orders")
    with pytest.raises(CannotReplicate, match="no primary key"):
        groups.add_table(two["hq"], "other", "keyless")
    run(
        two["hq"],
        "CREATE TABLE above (id int PRIMARY KEY, v int)",
        "CREATE TABLE below (more int) INHERITS (above)",
    )
    with pytest.raises(CannotReplicate, match="has a child below by inheritance"):
        groups.add_table(two["hq"], "other", "above")
    run(
        two["hq"],
        "CREATE TABLE ruled (id int PRIMARY KEY)",
        "CREATE RULE also AS ON DELETE TO ruled DO ALSO DELETE FROM above",
    )
    with pytest.raises(CannotReplicate, match="has a rule also"):
        groups.add_table(two["hq"], "other", "ruled")
    for table in ("snaptide.queue", "pg_catalog.pg_class"):
        with pytest.raises(CannotReplicate, match="is a table of Snaptide"):
            groups.add_table(two["hq"], "other", table)
    run(two["hq"], ROW)
    with pytest.raises(GroupBusy, match="1 call of orders waits at hq for lax"):
        groups.remove_master(two["hq"], GROUP, "lax")


def test_master_without_our_schema_is_told_so(
    apart: Directory, make_database: MakeDatabase
) -> None:
    told = Directory({"hq": apart["hq"].url, "bare": make_database()})
    groups.create_group(told["hq"], GROUP)
    with pytest.raises(SiteNotInitialised, match=str(told["bare"].url.database)):
        groups.add_master(told["hq"], GROUP, "bare")
    told.close()


def test_masters_leave_and_groups_go_and_tables_stay(apart: Directory) -> None:
    found_group(apart, "hq", "lax", "jfk")
    run(apart["hq"], ROW)
    push_all(apart)
    groups.remove_master(apart["hq"], GROUP, "jfk")
    run(apart["jfk"], "UPDATE orders SET qty = 1000")
    run(apart["hq"], "UPDATE orders SET qty = 2")
    push_all(apart)
    assert [row[2] for row in assert_masters_equal(apart, "hq", "lax")] == [2]
    assert [row[2] for row in rows(apart["jfk"])] == [1000]
    groups.drop_group(apart["hq"], GROUP)
    run(apart["hq"], "TRUNCATE orders", "ALTER TABLE orders DROP COLUMN qty")
    assert [groups.list_groups(site) for site in apart.values()] == [[], [], []]


def test_show_says_what_waits_and_who_does_not_know(two: Directory) -> None:
    run(two["hq"], ROW)
    run(two["lax"], "UPDATE snaptide.replication_group SET version = 1")
    report = groups.show_group(two["hq"], GROUP)
    assert (report.definition_site, report.tables) == ("hq", ("orders",))
    assert [one.waiting for one in report.masters] == [{"lax": 1}, {"hq": 0}]
    assert [one.problem for one in report.masters] == [
        None,
        "has version 1 of the group, not 3",
    ]


def test_what_is_parked_is_on_its_way(two: Directory) -> None:
    """A retry would send it by other paths than the rest of its transaction."""
    run(two["hq"], ROW)
    push_all(two)
    run(two["lax"], "UPDATE orders SET qty = 2")
    run(two["hq"], "UPDATE orders SET qty = 3")
    assert deferred.push(two["hq"], "lax").errors == 1
    deferred.push(two["lax"], "hq")
    for refused in (
        lambda: groups.set_paths(two["hq"], GROUP, groups.chain),
        lambda: groups.remove_master(two["hq"], GROUP, "lax"),
        lambda: groups.drop_group(two["hq"], GROUP),
    ):
        with pytest.raises(GroupBusy, match=r"1 transaction .* error queue of"):
            refused()
    groups.drop_group(two["hq"], GROUP, force=True)


def test_master_that_could_not_leave_joins_again(
    two: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has left of the group does not stand in its way."""
    with monkeypatch.context() as cut:
        cut.setattr("groups.change.leave", lambda *_: None)
        groups.remove_master(two["hq"], GROUP, "lax")
    run(two["lax"], ROW)
    run(two["hq"], ROW)
    groups.add_master(two["hq"], GROUP, "lax")
    run(two["lax"], "UPDATE orders SET qty = 5")
    assert push_all(two) == 1
    assert_masters_equal(two, "hq", "lax")


def test_change_after_a_retry_in_one_transaction_is_sent(two: Directory) -> None:
    """It is the caller's own, not the parked transaction's."""
    run(two["hq"], ROW)
    push_all(two)
    run(two["lax"], "UPDATE orders SET qty = 2")
    run(two["hq"], "UPDATE orders SET qty = 3")
    assert deferred.push(two["hq"], "lax").errors == 1
    deferred.push(two["lax"], "hq")
    groups.remove_table(two["hq"], GROUP, "orders", force=True)
    run(two["lax"], "UPDATE orders SET qty = 1")
    groups.add_table(two["hq"], GROUP, "orders", same_rows=True)
    [error] = deferred.list_errors(two["lax"])
    with two["lax"].begin() as connection:
        deferred.retry(connection, two["lax"], error.id)
        connection.execute(sa.text("INSERT INTO public.orders (id) VALUES (2)"))
    assert queued(two["lax"]) == 1
    deferred.delete_errors(two["hq"])
    assert push_all(two) == 1
    assert_masters_equal(two, "hq", "lax")


def test_retry_that_goes_on_is_a_transaction_of_its_own(
    make_sites: Callable[..., Directory],
) -> None:
    """What it brings goes other ways than what is made here: both, or neither."""
    sites = make_sites("hq", "lax", "bos")
    found_group(sites, "hq", "lax", "bos", via={"bos": "lax"})
    run(sites["lax"], "INSERT INTO orders (id, name) VALUES (1, 'taken')")
    run(sites["hq"], "INSERT INTO orders (id, name) VALUES (2, 'taken')")
    assert deferred.push(sites["hq"], "lax").errors == 1
    run(sites["lax"], "UPDATE orders SET name = 'free' WHERE id = 1")
    [error] = deferred.list_errors(sites["lax"])
    own = sa.text("INSERT INTO public.orders (id) VALUES (3)")

    def mix(*, retry_first: bool) -> None:
        with sites["lax"].begin() as connection:
            if not retry_first:
                connection.execute(own)
            deferred.retry(connection, sites["lax"], error.id)
            connection.execute(own)

    for retry_first in (True, False):
        with pytest.raises((RetryFailed, DBAPIError), match="made at different sites"):
            mix(retry_first=retry_first)
    assert [row[0] for row in rows(sites["lax"])] == [1]
    deferred.retry_errors(sites["lax"])
    run(sites["lax"], "INSERT INTO orders (id) VALUES (3)")
    push_all(sites)
    assert len(assert_masters_equal(sites, "hq", "lax", "bos")) == 3
