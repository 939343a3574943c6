"""Columns of a snapshot in use come, go and get other names; nothing else does."""

import threading
from typing import Any

import psycopg
import pytest
from sqlalchemy import text

import deferred
import snapshots
import synchronous
from deferred import errors as deferred_errors
from sites import Directory, Site
from sites.errors import StillNeeded
from snapshots.creating import alter_columns, fill_columns
from snapshots.definitions.errors import (
    ColumnsRefused,
    UnknownColumn,
)
from snapshots.errors import ColumnGone
from tests import airport
from tests.airport import SWAP
from tests.fix_commands import Snaptide
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.grouped import broken_off_at
from tests.linked_table import application, parked, queued, run
from tests.stories import assert_equal_to_master, refresh, settle, user

pytestmark = pytest.mark.usefixtures("spark")

RIGHTS = (
    "SELECT grantee::regrole::text, privilege_type, is_grantable"
    " FROM pg_class c, aclexplode(c.relacl)"
    " WHERE c.oid = 'public.orders'::regclass AND grantee <> c.relowner ORDER BY 1, 2"
)
EARLY = (
    "SELECT grantee::regrole::text, privilege_type, reloptions::text"
    " FROM pg_class c, aclexplode(c.relacl)"
    " WHERE c.oid = 'public.early'::regclass AND grantee <> c.relowner"
)
COLUMNS = (
    "SELECT string_agg(attname, ',' ORDER BY attnum) FROM pg_attribute"
    " WHERE attrelid = 'public.orders'::regclass AND attnum > 0"
)


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    """An updatable snapshot with all that users hang on it, and one to read."""
    jfk = sites["jfk"]
    airport.found(sites["hq"], jfk)
    run(
        jfk,
        "CREATE VIEW public.firsts AS SELECT id, first FROM public.orders",
        "CREATE VIEW public.early AS SELECT * FROM public.firsts WHERE id < 5"
        " WITH LOCAL CHECK OPTION",
        "GRANT SELECT ON public.early TO pg_monitor",
        "GRANT SELECT, UPDATE ON public.orders TO pg_monitor",
        "GRANT SELECT ON public.orders TO pg_read_all_stats WITH GRANT OPTION",
        "GRANT UPDATE (first) ON public.orders TO pg_signal_backend",
        "COMMENT ON VIEW public.orders IS 'what we sell'",
        "ALTER VIEW public.orders ALTER qty SET DEFAULT 7",
        "CREATE TABLE public.seen_by_trigger (id int)",
        "CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN INSERT INTO public.seen_by_trigger VALUES (NEW.id); RETURN NEW; END'",
        'CREATE TRIGGER note BEFORE UPDATE ON public."snap$_orders"'
        " FOR EACH ROW EXECUTE FUNCTION public.note()",
    )


def assert_users_keep_what_they_had(jfk: Site) -> None:
    """Rights, comment, default and trigger of the view and its base table."""
    assert run(jfk, RIGHTS) == [
        ("pg_monitor", "SELECT", False),
        ("pg_monitor", "UPDATE", False),
        ("pg_read_all_stats", "SELECT", True),
    ]
    assert run(jfk, "SELECT obj_description('public.orders'::regclass)") == [
        ("what we sell",)
    ]
    run(jfk, "TRUNCATE public.seen_by_trigger")
    run(jfk, "UPDATE public.orders SET airport = airport WHERE id = 1")
    assert run(jfk, "SELECT id FROM public.seen_by_trigger") == [(1,)]
    run(jfk, "INSERT INTO public.orders (id, airport) VALUES (99, 'JFK')")
    assert run(jfk, "SELECT qty FROM public.orders WHERE id = 99") == [(7,)]
    run(jfk, "DELETE FROM public.orders WHERE id = 99")


ADDED = {
    "nullable": ("state text", "NULL"),
    "with a default": ("state text DEFAULT 'new'", "'new'"),
    "NOT NULL with a default": ("state text NOT NULL DEFAULT 'new'", "'new'"),
    "with another default each time": (
        "state uuid NOT NULL DEFAULT gen_random_uuid()",
        "NULL",
    ),
}


#: The rows of the snapshot that have another value than before once it is filled.
FILLED = {
    "with a default": [(5,)],
    "with another default each time": [(1,), (4,), (5,), (7,), (8,), (10,)],
}


@pytest.mark.parametrize("how", ADDED)
def test_an_added_column_comes_to_a_snapshot_with_changes_from_before(
    hq: Site, jfk: Site, how: str
) -> None:
    definition, before = ADDED[how]
    run(jfk, "UPDATE public.orders SET first = 'mine' WHERE id = 1")
    run(jfk, "INSERT INTO public.orders VALUES (10, 'JFK', 'f10', 'l10', 2)")
    run(jfk, "DELETE FROM public.orders WHERE id = 2")
    run(hq, f"ALTER TABLE public.orders ADD {definition}")
    assert deferred.push(jfk).transactions == 3
    run(jfk, "UPDATE public.orders SET first = 'mine' WHERE id = 4")
    if how == "with a default":
        run(hq, "UPDATE public.orders SET state = NULL WHERE id = 5")

    report = snapshots.alter_columns(jfk, "orders", add=["state"])
    snapshots.alter_columns(jfk, "seen", add=["state"])
    assert report.pushed == 1
    assert report.columns == ("id", "airport", "first", "last", "qty", "state")
    assert run(jfk, COLUMNS) == [("id,airport,first,last,qty,state",)]
    other = f"SELECT id FROM public.orders WHERE state IS DISTINCT FROM {before}"
    assert run(jfk, f"{other} ORDER BY id") == FILLED.get(how, [])
    assert report.filled == len(FILLED.get(how, []))
    assert run(
        hq, "SELECT first FROM public.orders WHERE id IN (1, 4) ORDER BY id"
    ) == [
        ("mine",),
        ("mine",),
    ]
    assert run(jfk, "SELECT count(*) FROM public.firsts") == [(6,)]
    assert_users_keep_what_they_had(jfk)

    # The last of the defaults has PostgreSQL write all rows of the master anew.
    methods = {one.method for one in refresh(jfk, "airport").values()}
    assert methods == {"complete" if "uuid" in definition else "fast"}
    settle(jfk)
    assert_equal_to_master(jfk)
    assert {one.method for one in refresh(jfk, "airport").values()} == {"fast"}

    new = "gen_random_uuid()" if "uuid" in definition else "'old'"
    run(jfk, f"UPDATE public.orders SET state = {new} WHERE id = 1")
    run(jfk, f"INSERT INTO public.orders VALUES (11, 'JFK', '', '', 0, {new})")
    run(hq, f"UPDATE public.orders SET state = {new} WHERE id = 7")
    assert deferred.push(jfk).errors == 0
    settle(jfk)
    assert_equal_to_master(jfk)


def test_a_conflict_about_a_row_that_was_not_filled(
    hq: Site, jfk: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The site showed another value: that is found, parked, and can be retried."""
    run(hq, "ALTER TABLE public.orders ADD state text DEFAULT 'new'")
    run(hq, "UPDATE public.orders SET state = 'sold' WHERE id IN (1, 2)")
    monkeypatch.setattr(fill_columns, "_fill", lambda *_: None)
    snapshots.alter_columns(jfk, "orders", add=["state"])
    run(jfk, "UPDATE public.orders SET state = 'mine' WHERE id = 1")
    run(jfk, "UPDATE public.orders SET state = 'mine' WHERE id = 4")
    assert deferred.push(jfk).errors == 1
    assert len(parked(hq)) == 1
    settle(jfk)
    run(hq, "UPDATE public.orders SET state = 'new' WHERE id = 1")
    assert [one.applied for one in deferred.retry_errors(hq)] == [True]
    settle(jfk)
    assert_equal_to_master(jfk)
    assert run(jfk, "SELECT id FROM public.orders WHERE state = 'mine' ORDER BY 1") == [
        (1,),
        (4,),
    ]


def test_rows_are_filled_beside_users(
    hq: Site, jfk: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that users hold are left to the next refresh."""
    run(hq, "ALTER TABLE public.orders ADD gate text")
    run(hq, "UPDATE public.orders SET gate = 'g' || id")
    run(jfk, "UPDATE public.orders SET qty = 0 WHERE id = 2")
    deferred.push(jfk)
    fill = fill_columns._fill

    def beside_users(*given: Any) -> int:
        run(jfk, "UPDATE public.orders SET qty = 0 WHERE id = 4")
        with user(jfk) as session:
            session.execute("SELECT FROM public.orders WHERE id = 1 FOR UPDATE")
            return fill(*given)

    monkeypatch.setattr(fill_columns, "_fill", beside_users)
    report = snapshots.alter_columns(jfk, "orders", add=["gate"])
    assert report.filled == 5
    found = "SELECT id FROM public.orders WHERE gate IS NULL ORDER BY id"
    assert run(jfk, found) == [(1,)]
    monkeypatch.undo()
    assert snapshots.alter_columns(jfk, "seen", add=["gate"]).filled == 9
    assert {one.method for one in refresh(jfk, "airport").values()} == {"fast"}
    assert run(jfk, found) == []
    settle(jfk)
    assert_equal_to_master(jfk)


def test_a_column_comes_beside_users_who_write_all_the_time(
    hq: Site, jfk: Site
) -> None:
    """The queue is never empty of itself."""
    over = threading.Event()

    def write() -> None:
        with application(jfk) as session:
            while not over.wait(0.03):
                session.execute("UPDATE public.orders SET qty = qty + 1 WHERE id = 1")
                session.commit()

    users = [threading.Thread(target=write) for _ in range(2)]
    run(hq, "ALTER TABLE public.orders ADD gate text")
    run(hq, "UPDATE public.orders SET gate = 'g' || id")
    for one in users:
        one.start()
    try:
        report = snapshots.alter_columns(jfk, "orders", add=["gate"], drop=["last"])
        assert report.columns == ("id", "airport", "first", "qty", "gate")
    finally:
        over.set()
        for one in users:
            one.join()
    snapshots.alter_columns(jfk, "seen", add=["gate"])
    settle(jfk)
    assert_equal_to_master(jfk)
    assert parked(hq) == []


@pytest.mark.parametrize("in_memory", [fill_columns.IN_MEMORY, 1])
def test_values_come_as_they_are(
    hq: Site, jfk: Site, monkeypatch: pytest.MonkeyPatch, in_memory: int
) -> None:
    """They travel as lines of COPY, which has characters of its own, through a file."""
    monkeypatch.setattr(fill_columns, "IN_MEMORY", in_memory)
    values = ["", "\\.", 'a\n\\.\nb,"c"', "\\N", "NULL", " "]
    run(hq, "ALTER TABLE public.orders ADD gate text")
    with application(hq) as session:
        for number, value in enumerate(values, 1):
            session.execute("DELETE FROM public.orders WHERE id = %s", [number])
            session.execute(
                "INSERT INTO public.orders (id, airport, gate) VALUES (%s, 'JFK', %s)",
                [number, value],
            )
        session.commit()
    refresh(jfk, "airport")
    assert snapshots.alter_columns(jfk, "orders", add=["gate"]).filled == len(values)
    found = "SELECT gate FROM public.orders WHERE id <= 6 ORDER BY id"
    assert run(jfk, found) == [(value,) for value in values]


def test_what_is_pushed_while_users_wait_is_counted(
    jfk: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(jfk, "UPDATE public.orders SET first = 'mine' WHERE id = 1")
    lock, late = alter_columns._lock, ["UPDATE public.orders SET qty = 2 WHERE id = 2"]

    def lock_after_a_user(*given: Any) -> None:
        run(jfk, *late)
        late.clear()
        lock(*given)

    monkeypatch.setattr(alter_columns, "_between_pushes", lambda *_: None)
    monkeypatch.setattr(alter_columns, "_lock", lock_after_a_user)
    assert snapshots.alter_columns(jfk, "orders", drop=["last"]).pushed == 2
    assert queued(jfk) == 0


def test_filling_that_is_broken_off(hq: Site, jfk: Site) -> None:
    run(hq, "ALTER TABLE public.orders ADD gate text")
    run(hq, "UPDATE public.orders SET gate = 'g' || id")
    for name in ("orders", "seen"):
        with broken_off_at("snapshot_alter.filling"):
            snapshots.alter_columns(jfk, name, add=["gate"])
    hidden = "SELECT count(*) FROM pg_attribute WHERE attname LIKE 'snaptide$new$%'"
    assert run(jfk, hidden) == [(0,)]
    assert run(jfk, COLUMNS) == [("id,airport,first,last,qty",)]

    # What a crash leaves.
    run(jfk, 'ALTER TABLE public."snap$_orders" ADD "snaptide$new$1" text')
    settle(jfk)
    assert_equal_to_master(jfk)
    for name in ("orders", "seen"):
        assert snapshots.alter_columns(jfk, name, add=["gate"]).filled
    assert run(jfk, hidden) == [(0,)]
    assert {one.method for one in refresh(jfk, "airport").values()} == {"fast"}
    settle(jfk)
    assert_equal_to_master(jfk)


def test_filling_gives_up_where_the_site_refuses_a_value(hq: Site, jfk: Site) -> None:
    run(
        jfk,
        "CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN IF NEW.id = 4 THEN RAISE ''not this one''; END IF; RETURN NEW; END'",
        'CREATE TRIGGER refuse BEFORE UPDATE ON public."snap$_orders"'
        " FOR EACH ROW EXECUTE FUNCTION public.refuse()",
    )
    run(
        hq,
        "ALTER TABLE public.orders ADD state text",
        "UPDATE public.orders SET state = 's'",
    )
    assert snapshots.alter_columns(jfk, "orders", add=["state"]).filled is None
    refused = refresh(jfk, "airport")["orders"].refused
    assert [count for why, count in refused.items() if "not this one" in why] == [1]
    run(jfk, 'DROP TRIGGER refuse ON public."snap$_orders"')
    snapshots.alter_columns(jfk, "seen", add=["state"])
    settle(jfk)
    assert_equal_to_master(jfk)


def test_renamed_columns_take_the_waiting_changes_along(hq: Site, jfk: Site) -> None:
    run(jfk, "UPDATE public.orders SET first = 'mine', qty = 0 WHERE id = 1")
    run(jfk, "INSERT INTO public.orders VALUES (10, 'JFK', 'f10', 'l10', 2)")
    run(hq, "ALTER TABLE public.orders RENAME first TO given")
    with pytest.raises(ColumnGone):
        refresh(jfk, "airport")

    for name in ("orders", "seen"):
        report = snapshots.alter_columns(jfk, name, rename={"first": "given"})
        assert report.pushed == 0
    assert queued(jfk) == 2
    assert run(jfk, COLUMNS) == [("id,airport,given,last,qty",)]
    assert run(jfk, "SELECT first FROM public.firsts WHERE id = 1") == [("mine",)]
    run(jfk, "UPDATE public.orders SET given = 'also' WHERE id = 2")
    assert deferred.push(jfk).errors == 0
    assert run(
        hq, "SELECT given FROM public.orders WHERE id IN (1, 2, 10) ORDER BY id"
    ) == [
        ("mine",),
        ("also",),
        ("f10",),
    ]
    assert {one.method for one in refresh(jfk, "airport").values()} == {"fast"}
    settle(jfk)
    assert_equal_to_master(jfk)
    assert_users_keep_what_they_had(jfk)


def test_columns_that_exchange_names(hq: Site, jfk: Site) -> None:
    run(jfk, "UPDATE public.orders SET first = 'mine' WHERE id = 1")
    run(hq, *SWAP)
    with pytest.raises(ColumnsRefused, match="two columns last"):
        snapshots.alter_columns(jfk, "orders", rename={"first": "last"})
    for name in ("orders", "seen"):
        swapped = {"first": "last", "last": "first"}
        snapshots.alter_columns(jfk, name, rename=swapped)
    assert run(jfk, COLUMNS) == [("id,airport,last,first,qty",)]
    assert deferred.push(jfk).errors == 0
    assert run(hq, "SELECT first, last FROM public.orders WHERE id = 1") == [
        ("l1", "mine")
    ]
    settle(jfk)
    assert_equal_to_master(jfk)


def test_another_column_of_that_name_is_refused(hq: Site, jfk: Site) -> None:
    run(
        hq,
        "ALTER TABLE public.orders RENAME first TO given",
        "ALTER TABLE public.orders ADD first text",
    )
    with pytest.raises(ColumnsRefused, match="which is called last"):
        snapshots.alter_columns(jfk, "orders", rename={"last": "given"})
    run(hq, "ALTER TABLE public.orders DROP last")
    with pytest.raises(ColumnsRefused, match="which is gone"):
        snapshots.alter_columns(jfk, "orders", rename={"last": "given"})


def park(hq: Site, jfk: Site, *statements: str) -> None:
    """Have headquarters refuse what a branch does, until it has the old rows again."""
    run(hq, "UPDATE public.orders SET first = 'theirs' || id")
    for statement in statements:
        run(jfk, statement)
    assert deferred.push(jfk).errors == len(statements)


def alter(jfk: Site, **wanted: Any) -> None:
    for name in ("orders", "seen"):
        snapshots.alter_columns(jfk, name, **wanted)


def test_a_parked_change_goes_to_the_renamed_column(hq: Site, jfk: Site) -> None:
    """It is shown, edited, previewed and found under the name of now."""
    park(
        hq,
        jfk,
        "UPDATE public.orders SET first = 'mine' WHERE id = 1",
        "UPDATE public.orders SET first = 'two' WHERE id = 2",
        "UPDATE public.orders SET first = 'one' || id WHERE id IN (4, 5)",
    )
    run(hq, "ALTER TABLE public.orders RENAME first TO given")
    alter(jfk, rename={"first": "given"})
    first, second, third = (one.id for one in deferred.list_errors(hq))
    (call,) = deferred.show_error(hq, first).calls
    columns = ["id", "airport", "given", "last", "qty"]
    images = (call.old, call.new, call.current, call.now)
    assert [list(one or {}) for one in images] == [columns] * 4
    assert [(one or {})["given"] for one in images] == [
        *("f1", "mine", "theirs1", "theirs1")
    ]
    events = deferred.history([hq], "orders", ["1"]).events
    (event,) = (one for one in events if one.kind == "parked")
    assert list(event.new or {}) == columns

    # What is refused stays as it was.
    (report,) = deferred.retry_errors(hq, [first])
    assert "update conflict" in report.reason
    edits = [deferred.Edit.parse("orders.given=ours")]
    preview = deferred.preview_error(hq, first, edits)
    assert [(one.after or {})["given"] for one in preview.rows] == ["ours"]
    old = deferred.Edit.parse("orders.first=ours")
    with pytest.raises(deferred_errors.BadEdit, match="no new value of 'first'"):
        deferred.retry_errors(hq, [first], edits=[old])
    (report,) = deferred.retry_errors(hq, [first], edits=edits)
    assert report.applied

    run(hq, "UPDATE public.orders SET given = 'f' || id WHERE id IN (2, 4, 5)")
    (report,) = deferred.retry_errors(hq, [second])
    assert report.applied
    leave = deferred.show_error(hq, third).calls[0].call_no
    (report,) = deferred.retry_errors(hq, [third], skip=[leave])
    assert (report.applied, report.left_out) == (True, 1)
    run(hq, "ALTER TABLE public.orders RENAME given TO called")
    alter(jfk, rename={"given": "called"})
    (report,) = deferred.retry_errors(hq, [third])
    assert report.applied
    settle(jfk)
    assert_equal_to_master(jfk)
    found = "SELECT called FROM public.orders WHERE id IN (1, 2, 4, 5) ORDER BY id"
    assert run(jfk, found) == [("ours",), ("two",), ("one4",), ("one5",)]


def test_a_parked_change_of_columns_that_exchanged_names(hq: Site, jfk: Site) -> None:
    park(hq, jfk, "UPDATE public.orders SET first = 'mine' WHERE id = 1")
    run(hq, *SWAP)
    (error,) = deferred.list_errors(hq)
    (call,) = deferred.show_error(hq, error.id).calls
    assert list(call.new or {}) == ["id", "airport", "last", "first", "qty"]
    assert ((call.new or {})["first"], (call.new or {})["last"]) == ("l1", "mine")
    alter(jfk, rename={"first": "last", "last": "first"})
    run(hq, "UPDATE public.orders SET last = 'f' || id")
    (report,) = deferred.retry_errors(hq)
    assert report.applied
    settle(jfk)
    assert_equal_to_master(jfk)
    assert run(jfk, "SELECT first, last FROM public.orders WHERE id = 1") == [
        ("l1", "mine")
    ]


def test_a_parked_change_and_columns_that_came_and_went(hq: Site, jfk: Site) -> None:
    """What it leaves alone is ignored; a value for a column that is gone is refused."""
    park(
        hq,
        jfk,
        "UPDATE public.orders SET first = 'mine' WHERE id = 1",
        "UPDATE public.orders SET first = 'mine', last = 'mine' WHERE id = 2",
        "DELETE FROM public.orders WHERE id = 4",
    )
    run(hq, "ALTER TABLE public.orders ADD state text DEFAULT 'new'")
    alter(jfk, add=["state"], drop=["last"])
    run(
        hq,
        "ALTER TABLE public.orders DROP last",
        # Another one has its name now.
        "ALTER TABLE public.orders RENAME qty TO last",
        "UPDATE public.orders SET first = 'f' || id",
    )
    alter(jfk, rename={"qty": "last"})
    first, second, third = (one.id for one in deferred.list_errors(hq))
    (call,) = deferred.show_error(hq, second).calls
    assert list(call.new or {}) == ["id", "airport", "first", "last (gone)", "last"]
    assert (call.now or {})["last"] == "2"
    assert [one.applied for one in deferred.retry_errors(hq, [first, third])] == [
        True,
        True,
    ]
    (report,) = deferred.retry_errors(hq, [second])
    assert not report.applied
    assert "Column last of orders is gone" in report.reason
    settle(jfk)
    assert_equal_to_master(jfk)
    found = "SELECT id, first, last FROM public.orders WHERE id IN (1, 2, 4) ORDER BY 1"
    assert run(jfk, found) == [(1, "mine", 1), (2, "f2", 2)]


def drop_dependent(jfk: Site) -> None:
    run(jfk, "DROP VIEW public.firsts CASCADE")


def test_a_column_is_dropped_here_and_then_there(hq: Site, jfk: Site) -> None:
    run(jfk, "UPDATE public.orders SET last = 'mine' WHERE id = 1")
    with pytest.raises(StillNeeded, match="View firsts uses it"):
        snapshots.alter_columns(jfk, "orders", drop=["first"])
    assert run(jfk, COLUMNS) == [("id,airport,first,last,qty",)]
    report = snapshots.alter_columns(jfk, "orders", drop=["last"])
    snapshots.alter_columns(jfk, "seen", columns=["id", "airport", "first", "qty"])
    assert report.columns == ("id", "airport", "first", "qty")
    assert run(jfk, COLUMNS) == [("id,airport,first,qty",)]
    assert run(hq, "SELECT last FROM public.orders WHERE id = 1") == [("mine",)]
    run(jfk, "UPDATE public.orders SET qty = 5 WHERE id = 2")
    run(jfk, "INSERT INTO public.orders VALUES (10, 'JFK', 'f10', 2)")
    run(hq, "ALTER TABLE public.orders DROP last")
    assert deferred.push(jfk).errors == 0
    settle(jfk)
    assert run(jfk, "SELECT first FROM public.early WHERE id = 2") == [("f2",)]
    assert run(jfk, EARLY) == [("pg_monitor", "SELECT", "{check_option=local}")]
    assert_equal_to_master(jfk)
    assert {one.method for one in refresh(jfk, "airport").values()} == {"fast"}
    assert_users_keep_what_they_had(jfk)
    settle(jfk)

    # Another one comes after the gap.
    run(hq, "ALTER TABLE public.orders ADD last text DEFAULT 'none'")
    for name in ("orders", "seen"):
        snapshots.alter_columns(jfk, name, add=["last"])
    run(jfk, "UPDATE public.orders SET last = 'mine', qty = 6 WHERE id = 2")
    settle(jfk)
    assert_equal_to_master(jfk)
    assert run(hq, "SELECT qty, last FROM public.orders WHERE id = 2") == [(6, "mine")]


def test_a_column_that_the_master_has_dropped(hq: Site, jfk: Site) -> None:
    run(jfk, "UPDATE public.orders SET qty = 5 WHERE id = 1")
    run(jfk, "DELETE FROM public.orders WHERE id = 2")
    run(hq, "ALTER TABLE public.orders DROP last")
    run(jfk, "UPDATE public.orders SET last = 'mine' WHERE id = 4")
    with pytest.raises(ColumnsRefused, match="renamed or dropped last"):
        snapshots.alter_columns(jfk, "orders", drop=["first"])
    for name in ("orders", "seen"):
        snapshots.alter_columns(jfk, name, drop=["last"])
    assert [one.reason for one in deferred.list_errors(hq)] == ["column gone"]
    run(jfk, "UPDATE public.orders SET qty = 6 WHERE id = 1")
    settle(jfk)
    assert_equal_to_master(jfk)


def test_waiting_changes_without_a_dropped_column_arrive(hq: Site, jfk: Site) -> None:
    drop_dependent(jfk)
    run(jfk, "UPDATE public.orders SET qty = 5 WHERE id = 1")
    run(jfk, "INSERT INTO public.orders (id, airport, qty) VALUES (10, 'JFK', 3)")
    run(jfk, "DELETE FROM public.orders WHERE id = 2")
    run(hq, "ALTER TABLE public.orders DROP first")
    for name in ("orders", "seen"):
        assert snapshots.alter_columns(jfk, name, drop=["first"]).pushed == 0
    assert queued(jfk) == 3
    run(jfk, "UPDATE public.orders SET last = 'mine' WHERE id = 4")
    assert deferred.push(jfk).errors == 0
    assert run(
        hq, "SELECT last, qty FROM public.orders WHERE id IN (1, 4, 10) ORDER BY id"
    ) == [
        ("l1", 5),
        ("mine", 4),
        (None, 3),
    ]
    settle(jfk)
    assert_equal_to_master(jfk)


def test_one_takes_the_name_of_another_that_is_dropped(hq: Site, jfk: Site) -> None:
    """Neither step could be done before the other."""
    drop_dependent(jfk)
    run(jfk, "UPDATE public.orders SET last = 'mine' WHERE id = 1")
    run(
        hq,
        "ALTER TABLE public.orders DROP first",
        "ALTER TABLE public.orders RENAME last TO first",
    )
    for name in ("orders", "seen"):
        snapshots.alter_columns(jfk, name, drop=["first"], rename={"last": "first"})
    assert run(jfk, COLUMNS) == [("id,airport,first,qty",)]
    assert run(jfk, "SELECT first FROM public.orders WHERE id = 1") == [("mine",)]
    assert deferred.push(jfk).errors == 0
    settle(jfk)
    assert_equal_to_master(jfk)


@pytest.mark.parametrize(
    ("point", "done"),
    [("snapshot_alter.before_columns", False), ("snapshot_alter.after_columns", True)],
)
def test_what_breaks_off_leaves_the_old_or_the_new_columns(
    hq: Site, jfk: Site, point: str, done: bool
) -> None:
    run(hq, "ALTER TABLE public.orders ADD state text DEFAULT 'new'")
    with broken_off_at(point):
        snapshots.alter_columns(jfk, "orders", add=["state"], drop=["last"])
    now = "id,airport,first,qty,state" if done else "id,airport,first,last,qty"
    assert run(jfk, COLUMNS) == [(now,)]
    assert ",".join(snapshots.describe_snapshot(jfk, "orders").columns) == now
    assert_users_keep_what_they_had(jfk)
    if not done:
        snapshots.alter_columns(jfk, "orders", add=["state"], drop=["last"])
    run(jfk, "UPDATE public.orders SET state = 'sold' WHERE id = 1")
    settle(jfk)
    assert_equal_to_master(jfk)


def test_users_go_on_while_a_column_comes(
    hq: Site, jfk: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction that is open makes it wait, and what it wrote is pushed before."""
    run(hq, "ALTER TABLE public.orders ADD state text DEFAULT 'new'")
    with user(jfk) as one:
        one.execute("UPDATE public.orders SET qty = 5 WHERE id = 1")
        monkeypatch.setattr("sites.tables.locks.ATTEMPTS", 1)
        with pytest.raises(psycopg.errors.LockNotAvailable):
            snapshots.alter_columns(jfk, "orders", add=["state"])
        one.commit()
    assert snapshots.alter_columns(jfk, "orders", add=["state"]).pushed == 1
    settle(jfk)
    assert_equal_to_master(jfk)


def test_a_condition_that_uses_a_renamed_column(hq: Site, jfk: Site) -> None:
    run(hq, "ALTER TABLE public.orders RENAME airport TO place")
    snapshots.alter_columns(jfk, "seen", rename={"airport": "place"})
    with pytest.raises(ColumnsRefused, match="give the new one, too"):
        snapshots.alter_columns(jfk, "orders", rename={"airport": "place"})
    other = snapshots.Condition(where="place = 'LAX'")
    report = snapshots.alter_columns(
        jfk, "orders", rename={"airport": "place"}, condition=other
    )
    assert report.condition == "(place = 'LAX'::text)"
    snapshots.refresh(jfk, "airport", allow_mass_delete=True)
    assert_equal_to_master(jfk)
    assert run(jfk, "SELECT count(*) FROM public.orders") == [(3,)]


def test_the_master_is_not_asked_while_users_wait(
    hq: Site, jfk: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(hq, "ALTER TABLE public.orders RENAME airport TO code")
    lock, session = alter_columns._lock, Site.session
    locked: list[str] = []

    def note(*given: Any) -> None:
        lock(*given)
        locked.append("orders")

    def ask(site: Site, *given: Any) -> Any:
        assert not (locked and site.name == "hq")
        return session(site, *given)

    monkeypatch.setattr(alter_columns, "_lock", note)
    monkeypatch.setattr(Site, "session", ask)
    where = snapshots.Condition(where="code = 'JFK'")
    change = {"rename": {"airport": "code"}, "condition": where}
    report = snapshots.alter_columns(jfk, "orders", **change)  # type: ignore[arg-type]
    monkeypatch.undo()
    assert locked
    assert report.condition == "(code = 'JFK'::text)"
    snapshots.alter_columns(jfk, "seen", rename={"airport": "code"})
    settle(jfk)
    assert_equal_to_master(jfk)


def test_a_name_that_another_column_has_taken_in_a_condition(
    hq: Site, jfk: Site
) -> None:
    run(
        hq,
        "ALTER TABLE public.orders RENAME airport TO place",
        "ALTER TABLE public.orders ADD airport text",
    )
    with pytest.raises(ColumnsRefused, match="it uses airport"):
        snapshots.alter_columns(jfk, "orders", rename={"airport": "place"})


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "has these columns already"),
    "known": ({"add": ["last"]}, "two columns last"),
    "unknown to drop": ({"drop": ["more"]}, "no column more"),
    "unknown to rename": ({"rename": {"more": "less"}}, "no column more"),
    "key": ({"drop": ["id"]}, "id identifies its rows"),
    "both": ({"drop": ["first"], "rename": {"first": "y"}}, "dropped and renamed"),
    "all and some": ({"add": ["x"], "columns": ["id"]}, "either all columns"),
    "in the condition": ({"drop": ["airport"]}, "it uses airport"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(jfk: Site, what: str) -> None:
    given, why = REFUSED[what]
    with pytest.raises(ColumnsRefused, match=why):
        snapshots.alter_columns(jfk, "orders", **given)
    assert run(jfk, COLUMNS) == [("id,airport,first,last,qty",)]
    with pytest.raises(UnknownColumn):
        snapshots.alter_columns(jfk, "orders", add=["not_there"])
    with pytest.raises(UnknownColumn):
        snapshots.alter_columns(jfk, "orders", rename={"first": "not_there"})


def test_a_column_that_was_left_out_comes_while_changes_wait(
    hq: Site, jfk: Site
) -> None:
    """The master has had it all the time; the queue says nothing about it yet."""
    made: dict[str, Any] = {"master": "hq", "group": "few", "updatable": True}
    few = ["id", "airport", "first"]
    snapshots.create(jfk, "few", table="orders", columns=few, **made)
    snapshots.refresh(jfk, "few")
    run(jfk, "UPDATE public.few SET first = 'mine' WHERE id = 1")
    run(jfk, "INSERT INTO public.few VALUES (10, 'JFK', 'f10')")
    report = snapshots.alter_columns(jfk, "few", add=["qty"])
    assert report.pushed == 2
    assert run(hq, "SELECT qty FROM public.orders WHERE id IN (1, 10) ORDER BY id") == [
        (1,),
        (1,),
    ]
    refresh(jfk, "few")
    run(jfk, "UPDATE public.few SET qty = qty + 1, first = 'more' WHERE id = 10")
    run(jfk, "DELETE FROM public.few WHERE id = 2")
    assert deferred.push(jfk).errors == 0
    settle(jfk)
    assert_equal_to_master(jfk)
    assert run(hq, "SELECT qty FROM public.orders WHERE id = 10") == [(2,)]


TYPES: dict[str, tuple[str, str]] = {
    "generated": ("more int GENERATED ALWAYS AS (qty + 1) STORED", "compute column"),
    "a domain that checks": ("more public.positive", "domain of column more"),
    "a type that the site lacks": ("more public.mood", "mood"),
}


@pytest.mark.parametrize("what", TYPES)
def test_a_column_that_the_site_cannot_add(hq: Site, jfk: Site, what: str) -> None:
    definition, why = TYPES[what]
    domain = "CREATE DOMAIN public.positive AS int CHECK (VALUE > 0)"
    run(hq, domain, "CREATE TYPE public.mood AS ENUM ('good')")
    run(jfk, domain)
    run(hq, f"ALTER TABLE public.orders ADD {definition}")
    with pytest.raises(snapshots.SnapshotRefused, match=why):
        snapshots.alter_columns(jfk, "orders", add=["more"])
    assert run(jfk, COLUMNS) == [("id,airport,first,last,qty",)]
    assert_users_keep_what_they_had(jfk)


def test_withdrawn_changes_are_in_the_way(hq: Site, jfk: Site) -> None:
    """They would be put back by the names that columns have by then."""
    snapshots.alter_leaving(jfk, "orders", "park")
    run(jfk, "UPDATE public.orders SET first = 'mine' WHERE id = 1")
    run(hq, "UPDATE public.orders SET airport = 'LAX' WHERE id = 1")
    refresh(jfk, "airport")
    assert len(deferred.list_errors(jfk)) == 1
    with pytest.raises(ColumnsRefused, match="withdrawn changes of it"):
        snapshots.alter_columns(jfk, "orders", drop=["qty"])
    deferred.delete_errors(jfk)
    snapshots.alter_columns(jfk, "orders", drop=["qty"])


def test_columns_of_which_one_is_computed(hq: Site, jfk: Site) -> None:
    computed = "twice int GENERATED ALWAYS AS (n * 2) STORED"
    run(hq, f"CREATE TABLE public.g (id int PRIMARY KEY, n int, {computed})")
    log(hq, "g")
    snapshots.create(jfk, "g", master="hq", updatable=True)
    with pytest.raises(StillNeeded, match="twice"):
        snapshots.alter_columns(jfk, "g", drop=["n"])
    refresh(jfk, "g")
    with pytest.raises(StillNeeded, match="twice"):
        snapshots.alter_columns(jfk, "g", drop=["n"])
    run(jfk, "INSERT INTO public.g (id, n) VALUES (1, 1)")
    snapshots.alter_columns(jfk, "g", drop=["twice"])
    run(jfk, "INSERT INTO public.g VALUES (2, 2)")
    settle(jfk)
    assert run(hq, "SELECT * FROM public.g ORDER BY 1") == [(1, 1, 2), (2, 2, 4)]
    assert_equal_to_master(jfk)


def test_a_computed_column_before_a_refresh_knows_the_master(
    hq: Site, jfk: Site
) -> None:
    """A switch to another master forgets the numbers; the queue has some of them."""
    computed = "twice int GENERATED ALWAYS AS (n * 2) STORED"
    run(hq, f"CREATE TABLE public.g (id int PRIMARY KEY, n int, {computed})")
    log(hq, "g")
    snapshots.create(jfk, "g", master="hq", updatable=True)
    refresh(jfk, "g")
    run(jfk, "UPDATE snaptide.snapshot SET master_columns = NULL WHERE name = 'g'")
    snapshots.alter_columns(jfk, "g", drop=["twice"])
    run(jfk, "INSERT INTO public.g VALUES (2, 2)")
    settle(jfk)
    assert run(hq, "SELECT * FROM public.g") == [(2, 2, 4)]
    assert_equal_to_master(jfk)


def test_a_snapshot_that_is_not_filled_yet(hq: Site, jfk: Site) -> None:
    made: dict[str, Any] = {"master": "hq", "group": "new", "updatable": True}
    few = ["id", "airport", "first"]
    snapshots.create(jfk, "new", table="orders", columns=few, **made)
    with pytest.raises(ColumnsRefused, match="is not the column that was called first"):
        snapshots.alter_columns(jfk, "new", rename={"first": "last"})
    snapshots.alter_columns(jfk, "new", add=["qty"], drop=["first"])
    snapshots.refresh(jfk, "new")
    run(jfk, "UPDATE public.new SET qty = 0 WHERE id = 1")
    settle(jfk)
    assert_equal_to_master(jfk)


def test_a_column_of_a_table_without_partitions(hq: Site, jfk: Site) -> None:
    run(
        hq,
        "CREATE TABLE public.later (id int PRIMARY KEY, note text)"
        " PARTITION BY RANGE (id)",
    )
    log(hq, "later")
    snapshots.create(jfk, "later", master="hq")
    snapshots.refresh(jfk, "later")
    run(hq, "ALTER TABLE public.later ADD gate text DEFAULT 'A1'")
    assert snapshots.alter_columns(jfk, "later", add=["gate"]).filled == 0
    assert run(jfk, "SELECT id, note, gate FROM public.later") == []


def test_what_a_new_column_lacks_is_said(hq: Site, jfk: Site) -> None:
    run(
        hq,
        "ALTER TABLE public.orders ADD no serial, ADD code text NOT NULL DEFAULT 'x',"
        " ADD token uuid NOT NULL DEFAULT gen_random_uuid()",
        "UPDATE public.orders SET code = 'c' || id",
        "CREATE UNIQUE INDEX codes ON public.orders (code)",
        "CREATE INDEX tokens ON public.orders (token)",
    )
    report = snapshots.alter_columns(jfk, "orders", add=["no", "code", "token"])
    said = [one.partition(":")[0] for one in report.left_out]
    assert said == [
        "NOT NULL of no",
        "unique key codes",
        "NOT NULL of token",
        "index tokens",
    ]
    settle(jfk)
    run(jfk, "INSERT INTO public.orders (id, airport, code) VALUES (10, 'JFK', 'y')")
    settle(jfk)
    assert_equal_to_master(jfk)
    with pytest.raises(ColumnsRefused, match="no draws numbers"):
        snapshots.alter_columns(jfk, "orders", rename={"no": "number"})
    snapshots.alter_columns(jfk, "orders", drop=["no"])
    assert snapshots.list_numbers(jfk) == []


def test_conditions_of_others_and_synchronous_groups_are_in_the_way(
    hq: Site, jfk: Site
) -> None:
    run(
        hq,
        "CREATE TABLE public.item (id int PRIMARY KEY,"
        " order_id int REFERENCES public.orders)",
    )
    log(hq, "item")
    made: dict[str, Any] = {"master": "hq", "group": "airport", "updatable": True}
    first = "EXISTS (SELECT FROM orders o WHERE o.id = order_id AND o.first > 'f1')"
    snapshots.create(jfk, "item", where=first, **made)
    with pytest.raises(ColumnsRefused, match="condition of item uses first"):
        snapshots.alter_columns(jfk, "orders", drop=["first"])
    snapshots.refresh(jfk, "airport")
    snapshots.alter_propagation(jfk, "orders", synchronous=True)
    with pytest.raises(ColumnsRefused, match="its group is synchronous"):
        snapshots.alter_columns(jfk, "orders", drop=["last"])


def test_a_coordinator_sees_columns_that_came_meanwhile(hq: Site, jfk: Site) -> None:
    """What it has learnt of the queue is from before."""
    add, change = (
        "INSERT INTO orders (id, airport, state) ",
        "UPDATE orders SET state = ",
    )
    snapshots.alter_propagation(jfk, "orders", synchronous=True)
    with synchronous.begin(jfk) as connection:
        connection.execute(text("UPDATE orders SET qty = 0 WHERE id = 1"))
    for column in ("state", "more"):
        snapshots.alter_propagation(jfk, "orders", synchronous=False)
        run(hq, f"ALTER TABLE public.orders ADD {column} text DEFAULT 'new'")
        for name in ("orders", "seen"):
            snapshots.alter_columns(jfk, name, add=[column])
        refresh(jfk, "airport")
        snapshots.alter_propagation(jfk, "orders", synchronous=True)
        with synchronous.begin(jfk) as connection:
            if column == "state":
                connection.execute(text(change + "'one' WHERE id = 1"))
            connection.execute(text(change + "'two' WHERE id > 1"))
    with synchronous.begin(jfk) as connection:
        connection.execute(text(add + "VALUES (10, 'JFK', 'three')"))
    settle(jfk)
    assert_equal_to_master(jfk)
    found = "SELECT DISTINCT state FROM public.orders WHERE airport = 'JFK' ORDER BY 1"
    assert run(hq, found) == [("one",), ("three",), ("two",)]


def test_a_table_that_is_too_wide_for_it(hq: Site, jfk: Site) -> None:
    many = ", ".join(f"c{n} text" for n in range(170))
    run(hq, f"CREATE TABLE public.wide (id int PRIMARY KEY, {many})")
    log(hq, "wide")
    snapshots.create(jfk, "wide", master="hq", updatable=True)
    snapshots.refresh(jfk, "wide")
    run(hq, "ALTER TABLE public.wide ADD more text")
    with pytest.raises(ColumnsRefused, match="too wide"):
        snapshots.alter_columns(jfk, "wide", add=["more"])


def test_commands(hq: Site, jfk: Site, snaptide: Snaptide) -> None:
    drop_dependent(jfk)
    run(
        hq,
        "ALTER TABLE public.orders RENAME airport TO place",
        'ALTER TABLE public.orders ADD "a,b" text',
        "ALTER TABLE public.orders DROP first",
    )
    alter = ["snapshot", "alter", "jfk", "orders"]
    wrong = snaptide.said(*alter, "--rename", "airport", code=2)
    assert "write OLD=NEW" in wrong
    both = ["--add-column", "last", "--leaving", "keep"]
    assert "Give one of" in snaptide.said(*alter, *both, code=2)
    assert "SNP-248" in snaptide.said(*alter, "--drop-column", "id", code=1)
    asked = ["--rename", "airport=place", "--where", "place = 'JFK'"]
    asked += ["--drop-column", "first"]
    altered = snaptide.report(*alter, *asked)
    assert altered["columns"] == ["id", "place", "last", "qty"]
    every = ["--columns", 'id,place,last,qty,"a,b"']
    assert snaptide.report(*alter, *every)["columns"][-1] == "a,b"
    assert run(jfk, COLUMNS) == [("id,place,last,qty,a,b",)]
