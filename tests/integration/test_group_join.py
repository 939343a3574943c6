"""A master joins while the others work: its rows are copied, its queues begin there."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, select

import deferred
import groups
from deferred.errors import DestinationDisabled, DestinationJoins
from deferred.queues import define
from deferred.queues.backlog import set_disabled
from groups import copying, join
from groups.catalog import replication_group
from groups.errors import (
    BadPaths,
    CannotReplicate,
    GroupBusy,
    GroupChanging,
    MasterExists,
    MasterJoins,
    NoSuchMaster,
    NotEmpty,
)
from sites import Directory, Site
from sites.conditions import ranges
from sites.faults import InjectedFault
from snapshots.differences import difference, parallel_copy
from tests.fix_moments import Moments
from tests.fix_worlds import prepared_once
from tests.grouped import (
    GROUP,
    assert_masters_equal,
    broken_off_at,
    found_with_ten_rows,
    push_all,
)
from tests.let_go import END_LOCKS
from tests.linked_table import rows, run

pytestmark = pytest.mark.usefixtures("spark")


@prepared_once("hq", "lax", "bos")
def three(sites: Directory) -> None:
    """Two masters with ten rows, one of them changed and not pushed; one to join."""
    found_with_ten_rows(sites)
    run(sites["lax"], "UPDATE orders SET qty = 1 WHERE id = 1")


def test_joins_again_after_it_was_removed_while_rows_were_copied(
    three: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that dies has begun to copy, and nobody has let it start over."""
    hq, bos = three["hq"], three["bos"]

    def die(*_given: object) -> int:
        raise InjectedFault("killed")

    with monkeypatch.context() as patch:
        patch.setattr(parallel_copy, "run", die)
        with pytest.raises(InjectedFault):
            groups.join_master(hq, GROUP, "bos")
    assert run(bos, "SELECT range_no FROM snaptide.load_range") == [(0,)]
    groups.remove_master(hq, GROUP, "bos")
    assert groups.join_master(hq, GROUP, "bos").rows == 10
    assert run(bos, "SELECT 1 FROM snaptide.load_range") == []


def test_rows_are_copied_and_changes_since_follow(three: Directory) -> None:
    report = groups.join_master(three["hq"], GROUP, "bos", source="lax")
    assert (report.copied_from, report.rows) == ("lax", 10)
    run(three["hq"], "INSERT INTO orders (id, name) VALUES (20, 'hq')")
    run(three["lax"], "INSERT INTO orders (id, name) VALUES (30, 'lax')")
    run(three["bos"], "UPDATE orders SET qty = 5 WHERE id = 2")
    push_all(three)
    assert len(assert_masters_equal(three, "hq", "lax", "bos")) == 12


@pytest.mark.parametrize(
    "more", [(), ("ALTER TABLE orders ADD above int REFERENCES orders",)]
)
def test_small_tables_are_copied_without_spark(
    three: Directory, monkeypatch: pytest.MonkeyPatch, more: Sequence[str]
) -> None:
    """Its tasks take longer to start; also of a table that refers to itself."""

    def is_not_needed() -> None:
        raise AssertionError("Spark is started.")

    for statement in more:
        groups.remove_table(three["hq"], GROUP, "orders", force=True)
        for site in three.values():
            run(site, statement)
        groups.add_table(three["hq"], GROUP, "orders", same_rows=True)
    monkeypatch.setattr(difference, "session", is_not_needed)
    assert groups.join_master(three["hq"], GROUP, "bos").rows == 10


NOTE = """
CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF snaptide.comes_from() IS NULL THEN
        INSERT INTO public.audit VALUES (NEW.id);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER note AFTER INSERT ON public.orders
FOR EACH ROW EXECUTE FUNCTION public.note();
CREATE FUNCTION public.never() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'fired'; END $$
"""
NEVER = """
CREATE TRIGGER before BEFORE INSERT OR DELETE ON public.orders
FOR EACH ROW EXECUTE FUNCTION public.never();
ALTER TABLE public.orders ENABLE ALWAYS TRIGGER before;
CREATE CONSTRAINT TRIGGER later AFTER INSERT ON public.orders DEFERRABLE
INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.never()
"""


def test_no_trigger_fires_for_copied_rows(three: Directory) -> None:
    """What they made of those rows is copied, too."""
    for site in three.values():
        run(site, "CREATE TABLE audit (id int PRIMARY KEY)", NOTE)
    run(three["bos"], NEVER)
    groups.add_table(three["hq"], GROUP, "audit")
    run(three["hq"], "INSERT INTO orders (id) VALUES (11)")
    with broken_off_at("group_join.after_stretch"):
        groups.join_master(three["hq"], GROUP, "bos", source="hq")
    groups.join_master(three["hq"], GROUP, "bos", source="hq")
    assert run(
        three["bos"],
        "SELECT tgname, tgenabled::text FROM pg_trigger"
        " WHERE tgname IN ('before', 'later', 'note') ORDER BY tgname",
    ) == [("before", "A"), ("later", "O"), ("note", "O")]
    assert rows(three["bos"], "audit") == rows(three["hq"], "audit") == [(11,)]


def test_users_write_while_rows_are_copied(
    three: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written between the moment of the copy and its end comes by push."""
    copied = copying.copy

    def write_first(*arguments: Any) -> int:
        run(three["hq"], "UPDATE orders SET qty = qty + 10 WHERE id < 5")
        run(three["lax"], "DELETE FROM orders WHERE id = 10")
        with pytest.raises(psycopg.Error, match="bos is joining group"):
            run(three["bos"], "INSERT INTO orders (id) VALUES (99)")
        with pytest.raises(DestinationJoins):
            deferred.push(three["lax"], "bos")
        return copied(*arguments)

    monkeypatch.setattr(copying, "copy", write_first)
    assert groups.join_master(three["hq"], GROUP, "bos", via="lax").rows == 10
    push_all(three)
    rows = assert_masters_equal(three, "hq", "lax", "bos")
    assert sorted(row[2] for row in rows) == [0, 0, 0, 0, 0, 10, 10, 10, 11]


def test_tables_stay_as_they_are_while_rows_are_copied(
    three: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that is written anew looks empty to who sees an earlier moment."""
    copied = copying.copy
    wider = "ALTER TABLE orders ALTER qty TYPE bigint"
    anew = "ALTER TABLE orders ADD token uuid DEFAULT gen_random_uuid()"

    def alter_first(*arguments: Any) -> int:
        with pytest.raises(MasterJoins, match="bos is joining"):
            groups.execute_ddl(three["hq"], GROUP, wider)
        with pytest.raises(psycopg.errors.LockNotAvailable):
            run(three["lax"], "SET LOCAL lock_timeout = '10ms'", anew)
        return copied(*arguments)

    monkeypatch.setattr(copying, "copy", alter_first)
    assert groups.join_master(three["hq"], GROUP, "bos", source="lax").rows == 10
    groups.suspend(three["hq"], GROUP)
    groups.execute_ddl(three["hq"], GROUP, wider)
    assert len(assert_masters_equal(three, "hq", "lax", "bos")) == 10


def test_writers_at_all_masters_lose_nothing(
    three: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They begin before the first row is copied, and end after the last one."""
    copied, over = copying.copy, threading.Event()

    def write(name: str, begun: threading.Event) -> int:
        for number in count():
            key = f"{number % 8 + (20 if name == 'lax' else 30)}"
            run(
                three[name],
                f"INSERT INTO orders (id, qty) VALUES ({key}, 0) ON CONFLICT (id)"
                " DO UPDATE SET qty = orders.qty + 1",
                f"DELETE FROM orders WHERE id = {key} AND qty > 2",
            )
            if number > 20:
                begun.set()
            if over.is_set():
                return number
        raise AssertionError("unreachable")

    def beside(*arguments: Any) -> int:
        begun = [threading.Event() for _ in writers]
        going = [
            pool.submit(write, name, one)
            for name, one in zip(writers, begun, strict=True)
        ]
        try:
            assert all(one.wait(timeout=90) for one in begun)
            rows = copied(*arguments)
        finally:
            over.set()
        assert all(one.result() > 20 for one in going)
        return rows

    writers = ("hq", "lax")
    monkeypatch.setattr(copying, "copy", beside)
    with ThreadPoolExecutor() as pool:
        assert groups.join_master(three["hq"], GROUP, "bos").rows == 10
    assert push_all(three) > 80
    assert_masters_equal(three, "hq", "lax", "bos")


def test_tables_that_refer_to_each_other_come_in_ranges(
    make_sites: Callable[..., Directory], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that refer to rows of their own table come in one transaction."""
    monkeypatch.setattr(ranges, "PART_BYTES", 8192)
    sites = make_sites("hq", "bos")
    for site in sites.values():
        run(
            site,
            "CREATE TABLE tree (id int PRIMARY KEY, above int REFERENCES tree)",
            "CREATE TABLE leaf (id int PRIMARY KEY, tree int REFERENCES tree)"
            " PARTITION BY RANGE (id)",
            "CREATE TABLE low PARTITION OF leaf FOR VALUES FROM (0) TO (500)",
            "CREATE TABLE high PARTITION OF leaf FOR VALUES FROM (500) TO (5000)",
        )
    run(
        sites["hq"],
        "INSERT INTO tree SELECT n, 2001 - n FROM generate_series(1, 2000) n",
        "INSERT INTO leaf SELECT n, n FROM generate_series(1, 2000) n",
    )
    groups.create_group(sites["hq"], GROUP)
    for name in ("leaf", "tree"):
        groups.add_table(sites["hq"], GROUP, name)
    told: list[int] = []
    report = groups.join_master(
        sites["hq"], GROUP, "bos", progress=lambda done, *_: told.append(done)
    )
    assert (report.rows, told[-1]) == (4000, 4000)
    for query in ("SELECT * FROM tree ORDER BY id", "SELECT * FROM leaf ORDER BY id"):
        assert run(sites["bos"], query) == run(sites["hq"], query)
    waiting = "SELECT 1 FROM snaptide.deferred_transaction"
    assert run(sites["bos"], waiting) == []


@pytest.mark.parametrize(
    "point",
    [
        "group_join.after_begin",
        "group_join.after_stretch",
        "group_join.after_copy",
        "group_join.after_copy,group_join.after_empty",
    ],
)
def test_interrupted_it_starts_over(three: Directory, point: str) -> None:
    for one in point.split(","):
        with broken_off_at(one):
            groups.join_master(three["hq"], GROUP, "bos")
    told = groups.show_group(three["hq"], GROUP).masters
    [problem] = [one.problem for one in told if one.problem]
    assert problem == "is joining: its rows are not there yet"
    run(three["hq"], "UPDATE orders SET qty = 7 WHERE id = 7")
    groups.join_master(three["hq"], GROUP, "bos")
    run(three["lax"], "UPDATE orders SET qty = 8 WHERE id = 8")
    push_all(three)
    rows = assert_masters_equal(three, "hq", "lax", "bos")
    assert {row[0]: row[2] for row in rows if row[2]} == {1: 1, 7: 7, 8: 8}


def test_nobody_opens_what_another_has_begun_anew(
    three: Directory, moments: Moments
) -> None:
    """The session that kept the other one away was ended."""

    def another() -> None:
        run(three["hq"], END_LOCKS)
        moments.at("group_join.after_begin", break_off)
        with pytest.raises(InjectedFault):
            groups.join_master(three["hq"], GROUP, "bos")

    def break_off() -> None:
        raise InjectedFault

    moments.at("group_join.after_copy", another)
    with pytest.raises(GroupChanging, match="was ended"):
        groups.join_master(three["hq"], GROUP, "bos")
    groups.join_master(three["hq"], GROUP, "bos")
    push_all(three)
    assert len(assert_masters_equal(three, "hq", "lax", "bos")) == 10


def test_join_ends_well_without_the_session_that_kept_others_away(
    three: Directory, moments: Moments
) -> None:
    moments.at("group_join.after_copy", lambda: run(three["hq"], END_LOCKS))
    assert groups.join_master(three["hq"], GROUP, "bos").rows == 10
    push_all(three)
    assert len(assert_masters_equal(three, "hq", "lax", "bos")) == 10


def test_master_joins_a_group_that_is_suspended(three: Directory) -> None:
    """Users are refused there as at the others, and the copy is not."""
    groups.suspend(three["hq"], GROUP)
    assert groups.join_master(three["hq"], GROUP, "bos").rows == 10
    with pytest.raises(psycopg.Error, match="is quiesced"):
        run(three["bos"], "INSERT INTO orders (id) VALUES (99)")
    groups.resume(three["hq"], GROUP)
    run(three["bos"], "INSERT INTO orders (id) VALUES (99)")
    push_all(three)
    assert_masters_equal(three, "hq", "lax", "bos")


def test_neighbour_of_a_new_master_has_to_be_one(three: Directory) -> None:
    with pytest.raises(NoSuchMaster, match="nosuch is not a master"):
        groups.join_master(three["hq"], GROUP, "bos", via="nosuch")
    read_only = groups.TargetType.PROTECTED_READ_ONLY
    groups.remove_master(three["hq"], GROUP, "lax", force=True)
    groups.add_master(three["hq"], GROUP, "lax", target_type=read_only, same_rows=True)
    with pytest.raises(BadPaths, match="lax is read-only"):
        groups.join_master(three["hq"], GROUP, "bos", via="lax")
    assert groups.show_group(three["hq"], GROUP).version == 5


def test_nobody_is_behind_a_master_that_joins(three: Directory) -> None:
    """Said again the join drops what waits for it: that may not be for others too."""
    with broken_off_at("group_join.after_begin"):
        groups.join_master(three["hq"], GROUP, "bos")
    chain = groups.chain(["hq", "bos", "lax"])
    with pytest.raises(BadPaths, match="bos is joining and cannot send changes on yet"):
        groups.set_paths(three["hq"], GROUP, lambda names: chain)
    groups.set_paths(three["hq"], GROUP, lambda names: groups.star(names, "hq"))
    run(three["hq"], "UPDATE orders SET qty = 2 WHERE id = 2")
    groups.join_master(three["hq"], GROUP, "bos", via="lax")
    push_all(three)
    assert_masters_equal(three, "hq", "lax", "bos")


def test_rows_come_from_a_master_that_has_them(three: Directory) -> None:
    """Not from one that takes what comes, nor from one that waits for its own."""
    groups.remove_master(three["hq"], GROUP, "lax", force=True)
    with broken_off_at("group_join.after_begin"):
        groups.join_master(three["hq"], GROUP, "bos")
    with pytest.raises(CannotReplicate, match="does not have all rows yet"):
        groups.join_master(three["hq"], GROUP, "lax", source="bos")
    unprotected = groups.TargetType.UNPROTECTED_READ_ONLY
    groups.add_master(three["hq"], GROUP, "lax", target_type=unprotected)
    with pytest.raises(CannotReplicate, match="lax may have other rows"):
        groups.join_master(three["hq"], GROUP, "bos", source="lax")
    assert groups.show_group(three["hq"], GROUP).version == 6


def test_removed_while_it_joins_it_leaves_no_pause(three: Directory) -> None:
    with broken_off_at("group_join.after_begin"):
        groups.join_master(three["hq"], GROUP, "bos")
    run(three["hq"], "UPDATE orders SET qty = 2 WHERE id = 2")
    with pytest.raises(MasterExists, match="bos is already joining"):
        groups.add_master(three["hq"], GROUP, "bos")
    groups.remove_master(three["hq"], GROUP, "bos")
    states = "SELECT state FROM snaptide.destination_state"
    assert [run(three[name], states) for name in ("hq", "lax")] == [[], []]


def test_pause_of_an_operator_outlasts_a_join(
    three: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """He has disabled one way before, and another one while rows are copied."""
    copied = copying.copy

    def disable_first(*arguments: Any) -> int:
        set_disabled(three["lax"], "bos", disabled=True)
        return copied(*arguments)

    monkeypatch.setattr(copying, "copy", disable_first)
    with three["hq"].transaction() as connection:
        define.know_destinations(connection, "bos")
    set_disabled(three["hq"], "bos", disabled=True)
    groups.join_master(three["hq"], GROUP, "bos")
    for name in ("hq", "lax"):
        with pytest.raises(DestinationDisabled):
            deferred.push(three[name], "bos")
        set_disabled(three[name], "bos", disabled=False)
    push_all(three)
    assert len(assert_masters_equal(three, "hq", "lax", "bos")) == 10


def test_join_holds_one_view_however_often_it_begins(
    three: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first time, what lax has to note is locked behind the view's moment."""
    copied, moments = copying.copy, 0
    holders = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND state = 'idle in transaction' AND backend_xmin IS NOT NULL"
    )
    held: list[int] = []
    one_moment = join._one_moment
    other = three["lax"].connect()

    @contextmanager
    def again(model: Site, tables: Any) -> Iterator[Connection]:
        nonlocal moments
        moments += 1
        if moments == 1:
            locked = select(replication_group.c.name).with_for_update()
            lax.execute(locked)
        else:
            lax.rollback()
        with one_moment(model, tables) as view:
            yield view

    def counted(*arguments: Any) -> int:
        held.extend(row[0] for row in run(three["hq"], holders))
        return copied(*arguments)

    monkeypatch.setattr(join, "_one_moment", again)
    monkeypatch.setattr(copying, "copy", counted)
    with other as lax:
        groups.join_master(three["hq"], GROUP, "bos")
    assert (moments, held) == (2, [1])


def test_what_is_parked_is_settled_before(three: Directory) -> None:
    """The rows of lax lack it, and a retry there would not bring it to bos."""
    run(three["hq"], "UPDATE orders SET qty = 2 WHERE id = 1")
    deferred.push(three["hq"], "lax")
    with pytest.raises(GroupBusy, match="in the error queue of lax"):
        groups.join_master(three["hq"], GROUP, "bos", source="lax")
    assert groups.show_group(three["hq"], GROUP).version == 3


def test_master_with_rows_is_not_filled(three: Directory) -> None:
    run(three["bos"], "INSERT INTO orders (id) VALUES (1)")
    with pytest.raises(NotEmpty, match="orders at bos has rows"):
        groups.join_master(three["hq"], GROUP, "bos")
    assert groups.show_group(three["hq"], GROUP).version == 3
