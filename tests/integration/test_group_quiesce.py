"""A suspended group: users are refused, queues run empty, DDL runs everywhere."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from sqlalchemy.exc import DBAPIError

import deferred
import groups
from deferred.batches.pusher import only_pusher
from deferred.errors import PushInterrupted
from groups import pushes, quiesce
from groups.errors import GroupBusy, NotQuiesced, TablesDiffer
from masters.errors import DdlRefused
from sites import Directory
from sites.tables import locks
from tests.fix_worlds import prepared_once
from tests.grouped import GROUP, assert_masters_equal, found_group, push_all
from tests.linked_table import application, link, queued, rows, run


@prepared_once("hq", "lax", "bos", "jfk")
def three(sites: Directory) -> None:
    """Three masters of a group in a chain; jfk pushes to hq."""
    link(sites)
    found_group(sites, "hq", "lax", "bos", via={"bos": "lax"})


def statuses(sites: Directory) -> list[str]:
    """The status of the group, at each master."""
    return [groups.list_groups(sites[n])[0].status for n in ("hq", "lax", "bos")]


def test_suspend_drains_all_queues_and_refuses_users(three: Directory) -> None:
    run(three["hq"], "INSERT INTO orders (id) VALUES (1)")
    run(three["bos"], "INSERT INTO orders (id) VALUES (2)")
    report = groups.suspend(three["hq"], GROUP, by="ann")
    assert (report.status, report.status_by, report.pushed) == ("quiesced", "ann", 4)
    assert len(assert_masters_equal(three, "hq", "lax", "bos")) == 2
    assert [queued(three[name]) for name in ("hq", "lax", "bos")] == [0, 0, 0]
    assert statuses(three) == ["quiesced"] * 3
    for name in ("hq", "lax", "bos"):
        for statement in ("DELETE FROM orders", "TRUNCATE orders"):
            with pytest.raises(psycopg.Error, match="is quiesced: ann suspended it"):
                run(three[name], statement)
    groups.resume(three["hq"], GROUP)
    run(three["lax"], "DELETE FROM orders WHERE id = 1")
    assert push_all(three) == 2
    assert len(assert_masters_equal(three, "hq", "lax", "bos")) == 1
    with pytest.raises(psycopg.Error, match="cannot be truncated"):
        run(three["lax"], "TRUNCATE orders")


@pytest.mark.usefixtures("impatient")
def test_push_of_a_snapshot_waits_until_the_group_goes_on(three: Directory) -> None:
    groups.suspend(three["hq"], GROUP)
    run(three["jfk"], "INSERT INTO orders (id) VALUES (1)")
    with pytest.raises(PushInterrupted, match="is quiesced"):
        deferred.push(three["jfk"], "hq")
    assert queued(three["jfk"]) == 1
    groups.resume(three["hq"], GROUP)
    push_all(three)
    assert len(assert_masters_equal(three, "hq", "lax", "bos", "jfk")) == 1


@pytest.mark.usefixtures("impatient")
def test_procedure_that_is_called_waits_until_the_group_goes_on(
    three: Directory,
) -> None:
    """As row changes do: nobody has to look for it in an error queue."""
    hq, jfk = three["hq"], three["jfk"]
    run(hq, "INSERT INTO orders (id, qty) VALUES (1, 1)")
    run(
        hq,
        "CREATE PROCEDURE public.more() LANGUAGE sql AS"
        " 'UPDATE public.orders SET qty = qty + 1'",
    )
    deferred.allow_procedure(hq, "more")
    groups.suspend(hq, GROUP)
    with jfk.begin() as connection:
        deferred.call(connection, "more")
    with pytest.raises(PushInterrupted, match="is quiesced"):
        deferred.push(jfk, "hq")
    groups.resume(hq, GROUP)
    push_all(three)
    assert [r[2] for r in assert_masters_equal(three, "hq", "lax", "bos")] == [2]


def test_procedure_that_is_called_is_on_its_way(three: Directory) -> None:
    """By other paths what it changes at the next master would not go on from there."""
    hq, lax = three["hq"], three["lax"]
    run(
        lax,
        "CREATE PROCEDURE public.book() LANGUAGE sql AS"
        " 'INSERT INTO public.orders (id) VALUES (7)'",
    )
    deferred.allow_procedure(lax, "book")
    with hq.begin() as connection:
        deferred.call(connection, "book")
    with pytest.raises(GroupBusy, match="1 call of procedures waits at hq for lax"):
        groups.set_paths(hq, GROUP, groups.full_mesh)
    assert groups.suspend(hq, GROUP).pushed == 3
    assert [row[0] for row in assert_masters_equal(three, "hq", "lax", "bos")] == [7]
    groups.set_paths(hq, GROUP, groups.full_mesh)


def test_suspend_waits_for_what_users_have_begun(
    three: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "ATTEMPTS", 2)
    session = application(three["lax"])
    session.execute("INSERT INTO orders (id) VALUES (1)")
    with pytest.raises(Exception, match="lock timeout"):
        groups.suspend(three["hq"], GROUP)
    assert statuses(three) == ["normal"] * 3
    session.commit()
    session.close()
    groups.suspend(three["hq"], GROUP)
    assert len(assert_masters_equal(three, "hq", "lax", "bos")) == 1


def test_ddl_runs_at_all_masters(three: Directory) -> None:
    run(three["hq"], "INSERT INTO orders (id) VALUES (1)")
    add = "ALTER TABLE orders ADD gate text DEFAULT 'none'; ALTER TABLE orders DROP qty"
    with pytest.raises(NotQuiesced):
        groups.execute_ddl(three["hq"], GROUP, add)
    groups.suspend(three["hq"], GROUP)
    before = groups.show_group(three["hq"], GROUP).version
    assert groups.execute_ddl(three["hq"], GROUP, add).version == before + 1
    groups.resume(three["hq"], GROUP)
    run(three["bos"], "UPDATE orders SET gate = 'A7'")
    assert push_all(three) == 2
    [row] = assert_masters_equal(three, "hq", "lax", "bos")
    assert row[-1] == "A7"


def test_ddl_that_one_master_refuses_runs_at_none(three: Directory) -> None:
    run(three["bos"], "CREATE TABLE gates (id int)")
    groups.suspend(three["hq"], GROUP)
    with pytest.raises(DdlRefused, match='bos: relation "gates" already exists'):
        groups.execute_ddl(three["hq"], GROUP, "CREATE TABLE gates (id int)")
    with pytest.raises(TablesDiffer):
        groups.execute_ddl(
            three["hq"],
            GROUP,
            "DO $$ BEGIN IF to_regclass('gates') IS NULL THEN"
            " ALTER TABLE orders ADD gate int; END IF; END $$",
        )
    groups.resume(three["hq"], GROUP)
    run(three["lax"], "INSERT INTO orders (id) VALUES (1)")
    assert push_all(three) == 2
    assert [len(row) for row in rows(three["hq"])] == [5]


def test_ddl_that_cannot_be_prepared_says_why(three: Directory) -> None:
    """A command after it finds nothing that is left."""
    groups.suspend(three["hq"], GROUP)
    with pytest.raises(DBAPIError, match="temporary objects"):
        groups.execute_ddl(three["hq"], GROUP, "CREATE TEMP TABLE helper (id int)")
    groups.resume(three["hq"], GROUP)
    for name in ("hq", "lax", "bos"):
        left = "SELECT FROM pg_prepared_xacts WHERE database = current_database()"
        assert run(three[name], left) == []


def test_ddl_ends_no_transaction(three: Directory) -> None:
    """What one master had committed by itself could not be taken back at another."""
    groups.suspend(three["hq"], GROUP)
    asked = "SELECT attname FROM pg_attribute WHERE attname = 'gate'"
    for end in ("COMMIT", "ROLLBACK", "BEGIN", "PREPARE TRANSACTION 'gate'"):
        with pytest.raises(DdlRefused):
            groups.execute_ddl(
                three["hq"], GROUP, f"ALTER TABLE orders ADD gate int; {end}; SELECT 1"
            )
        assert [run(three[name], asked) for name in ("hq", "lax", "bos")] == [[]] * 3
    groups.resume(three["hq"], GROUP)
    run(three["lax"], "INSERT INTO orders (id) VALUES (1)")
    assert push_all(three) == 2


def test_suspend_waits_for_another_pusher(
    three: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else holds a way for longer than all rounds: it is waited for him."""
    run(three["hq"], "INSERT INTO orders (id) VALUES (1)")
    seen: list[bool] = []
    with three["hq"].session() as other, only_pusher(other, "lax") as alone:
        assert alone
        with ThreadPoolExecutor() as pool:
            pushed, again = pushes.push_round, threading.Event()

            def counted(*arguments: Any) -> pushes.Pushed:
                done = pushed(*arguments)
                seen.append(done.others_at_work)
                if len(seen) == 3:
                    again.set()
                return done

            monkeypatch.setattr(quiesce, "push_round", counted)
            monkeypatch.setattr(quiesce, "ROUNDS", 2)
            suspending = pool.submit(groups.suspend, three["hq"], GROUP)
            assert again.wait(timeout=90)
            other.rollback()
            other.exec_driver_sql("SELECT pg_advisory_unlock_all()")
            other.commit()
            assert suspending.result(timeout=90).status == "quiesced"
    assert seen[:3] == [True] * 3
    assert_masters_equal(three, "hq", "lax", "bos")
