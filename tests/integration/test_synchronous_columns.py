"""What becomes of synchronous changes when columns of the master or site change."""

from typing import Any

import pytest
from sqlalchemy import text

import deferred
import masters
import snapshots
import synchronous
from deferred.errors import TargetColumnsMoved
from masters.errors import UnknownColumn
from sites import Directory, Site
from sites.errors import SnaptideError
from snapshots.definitions.errors import ColumnsRefused
from synchronous.errors import RefusedByMaster
from tests.airport import SWAP
from tests.coordinated import left_over
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import queued, run
from tests.stories import assert_equal_to_master, settle

pytestmark = pytest.mark.usefixtures("spark")


@prepared_once("hq", "jfk", needs="spark")
def sites(sites: Directory) -> None:
    """A synchronous snapshot of some columns; programs know its statements."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.orders (id int PRIMARY KEY, first text, last text,"
        " qty int DEFAULT 1, spare int)",
        "INSERT INTO public.orders SELECT n, 'f' || n, 'l' || n, n, n"
        " FROM generate_series(1, 9) n",
    )
    log(hq, "orders")
    chosen = ["id", "first", "qty", "last"]
    snapshots.create(jfk, "orders", master="hq", updatable=True, columns=chosen)
    snapshots.refresh(jfk, "orders")
    snapshots.alter_propagation(jfk, "orders", synchronous=True)


def change(jfk: Site, *statements: str) -> None:
    with synchronous.begin(jfk) as connection:
        for statement in statements:
            connection.execute(text(statement))


#: Each is applied by a statement that is kept for some seconds.
KNOWN = (
    "INSERT INTO public.orders (id, first, qty, last) VALUES (50, 'n', 1, 'n')",
    "UPDATE public.orders SET first = 'known' WHERE id = 50",
    "DELETE FROM public.orders WHERE id = 50",
)


def know(jfk: Site) -> None:
    for statement in KNOWN:
        change(jfk, statement)


GOES_ON = {
    "added": "ALTER TABLE orders ADD gate text, ADD wing text NOT NULL DEFAULT 'A1'",
    "wider": "ALTER TABLE orders ALTER qty TYPE bigint, ALTER first TYPE text",
    "others": "ALTER TABLE orders RENAME spare TO other",
    "unknown": "ALTER TABLE orders DROP spare",
}


@pytest.mark.parametrize("what", GOES_ON)
def test_changes_go_on_after(hq: Site, jfk: Site, what: str) -> None:
    know(jfk)
    run(hq, GOES_ON[what])
    know(jfk)
    change(jfk, "UPDATE public.orders SET qty = 77, first = 'mine' WHERE id = 1")
    change(jfk, "INSERT INTO public.orders (id, last) VALUES (60, 'new')")
    columns = "SELECT id, first, qty, last FROM public.orders WHERE id IN (1, 60)"
    assert run(hq, columns) == run(jfk, columns) != []
    settle(jfk)
    assert_equal_to_master(jfk)


SWAPPED = {"first": "last", "last": "first"}
#: What the master does, and how the site follows.
STOPS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "renamed": (
        ("ALTER TABLE orders RENAME first TO given",),
        {"rename": {"first": "given"}},
    ),
    "dropped": (("ALTER TABLE orders DROP first",), {"drop": ["first"]}),
    "swapped": (SWAP, {"rename": SWAPPED}),
}
#: PostgreSQL says it first, for some seconds.
REFUSALS = (RefusedByMaster, UnknownColumn, TargetColumnsMoved)


@pytest.mark.parametrize("what", STOPS)
def test_changes_stop_until_the_site_follows(hq: Site, jfk: Site, what: str) -> None:
    """The user's statement fails, and nothing is changed at either end."""
    statements, follow = STOPS[what]
    know(jfk)
    run(hq, *statements)
    for statement in KNOWN[0], "UPDATE public.orders SET qty = 8 WHERE id = 1":
        with pytest.raises(REFUSALS):
            change(jfk, statement)
    assert left_over({"hq": hq, "jfk": jfk}) == {}
    assert run(hq, "SELECT qty FROM public.orders WHERE id IN (1, 50)") == [(1,)]
    with pytest.raises(ColumnsRefused, match="its group is synchronous"):
        snapshots.alter_columns(jfk, "orders", **follow)
    snapshots.alter_propagation(jfk, "orders", synchronous=False)
    snapshots.alter_columns(jfk, "orders", **follow)
    snapshots.alter_propagation(jfk, "orders", synchronous=True)
    change(jfk, "UPDATE public.orders SET qty = 8 WHERE id = 1")
    assert run(hq, "SELECT qty FROM public.orders WHERE id = 1") == [(8,)]
    settle(jfk)
    assert_equal_to_master(jfk)


def test_a_site_follows_ddl_once_it_is_asynchronous(hq: Site, jfk: Site) -> None:
    know(jfk)
    masters.execute_ddl(
        hq,
        "ALTER TABLE orders RENAME first TO given; ALTER TABLE orders ADD gate text;"
        "ALTER TABLE orders ALTER qty TYPE bigint",
    )
    with pytest.raises(ColumnsRefused, match="make it asynchronous for that time"):
        snapshots.refresh(jfk, "orders")
    snapshots.alter_propagation(jfk, "orders", synchronous=False)
    snapshots.refresh(jfk, "orders")
    snapshots.alter_propagation(jfk, "orders", synchronous=True)
    change(
        jfk,
        "UPDATE public.orders SET given = 'mine', qty = 5000000000 WHERE id = 1",
        "INSERT INTO public.orders (id, gate) VALUES (60, 'A1')",
    )
    change(jfk, "UPDATE public.orders SET qty = 6000000000 WHERE id = 2")
    columns = "SELECT id, given, qty, gate FROM public.orders ORDER BY id"
    assert run(hq, columns) == run(jfk, columns)
    assert queued(jfk) == 0
    settle(jfk)
    assert_equal_to_master(jfk)


def test_a_kept_statement_writes_no_other_column(hq: Site, jfk: Site) -> None:
    """The site has another column in the place of one that it knew a moment ago."""
    know(jfk)
    snapshots.alter_propagation(jfk, "orders", synchronous=False)
    snapshots.alter_columns(jfk, "orders", drop=["qty"], add=["spare"])
    snapshots.refresh(jfk, "orders")
    snapshots.alter_propagation(jfk, "orders", synchronous=True)
    change(jfk, "INSERT INTO public.orders (id, spare) VALUES (60, 600)")
    change(jfk, "UPDATE public.orders SET spare = 10 WHERE id = 1")
    found = "SELECT id, qty, spare FROM public.orders WHERE id IN (1, 60) ORDER BY id"
    assert run(hq, found) == [(1, 1, 10), (60, 1, 600)]
    settle(jfk)
    assert_equal_to_master(jfk)


def test_a_value_is_not_rounded_that_a_new_type_holds(hq: Site, jfk: Site) -> None:
    """What was learnt of the queue is from before, when the type held less."""
    know(jfk)
    snapshots.alter_propagation(jfk, "orders", synchronous=False)
    run(hq, "ALTER TABLE public.orders ALTER qty TYPE numeric(8,3)")
    snapshots.alter_columns(jfk, "orders", drop=["qty"], add=["qty"])
    snapshots.refresh(jfk, "orders")
    snapshots.alter_propagation(jfk, "orders", synchronous=True)
    run(hq, "ALTER TABLE public.orders ALTER qty TYPE numeric(8,2)")
    for statement in (
        "UPDATE public.orders SET qty = 1.234 WHERE id = 1",
        "INSERT INTO public.orders (id, qty) VALUES (60, 1.234)",
    ):
        with pytest.raises(SnaptideError, match="may be rounded or cut"):
            change(jfk, statement)
    assert deferred.list_errors(hq) == []


@prepared_once("hq", "jfk", needs="spark")
def goods(sites: Directory) -> None:
    """A synchronous snapshot of a partitioned table with an enum."""
    mood = "CREATE TYPE public.mood AS ENUM ('good')"
    run(sites["jfk"], mood)
    run(
        sites["hq"],
        mood,
        "CREATE TABLE public.goods (id int PRIMARY KEY, qty int, mood public.mood)"
        " PARTITION BY RANGE (id)",
        "CREATE TABLE public.low PARTITION OF goods FOR VALUES FROM (0) TO (100)",
        "INSERT INTO public.goods SELECT n, n, 'good' FROM generate_series(1, 3) n",
    )
    log(sites["hq"], "goods")
    snapshots.create(sites["jfk"], "goods", master="hq", updatable=True)
    snapshots.refresh(sites["jfk"], "goods")
    snapshots.alter_propagation(sites["jfk"], "goods", synchronous=True)


INSERT = "INSERT INTO public.goods VALUES (9, 9, 'good')"
UPDATE = "UPDATE public.goods SET qty = 70 WHERE id = 1"
#: What the master does, what goes on at once, and what is refused until a refresh or
#: until the master takes it back.
AT_ONCE = {
    "required": (
        (
            "ALTER TABLE goods ADD more text NOT NULL DEFAULT 'new'",
            "ALTER TABLE goods ALTER more DROP DEFAULT",
        ),
        (UPDATE, "DELETE FROM public.goods WHERE id = 2"),
        (INSERT,),
        "ALTER TABLE goods ALTER more SET DEFAULT 'new'",
    ),
    "using": (
        ("ALTER TABLE goods ALTER qty TYPE int USING qty * 10",),
        (INSERT,),
        (UPDATE, "DELETE FROM public.goods WHERE id = 2"),
        None,
    ),
    "enum": (
        ("ALTER TYPE public.mood ADD VALUE 'bad'",),
        (INSERT, UPDATE),
        (),
        None,
    ),
    "partition": (
        ("CREATE TABLE high PARTITION OF goods FOR VALUES FROM (100) TO (200)",),
        ("INSERT INTO public.goods VALUES (150, 9, 'good')", INSERT, UPDATE),
        (),
        None,
    ),
}


@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
@pytest.mark.parametrize("what", AT_ONCE)
def test_what_goes_on_and_what_waits(
    goods: Directory, what: str, *, known: bool
) -> None:
    """Also with statements that are kept for some seconds."""
    hq, jfk = goods["hq"], goods["jfk"]
    statements, goes_on, refused, undone = AT_ONCE[what]
    if known:
        change(jfk, INSERT.replace("9, 9", "8, 8"))
        change(jfk, UPDATE.replace("id = 1", "id = 8"))
        change(jfk, "DELETE FROM public.goods WHERE id = 8")
    run(hq, *statements)
    for statement in goes_on:
        change(jfk, statement)
    for statement in refused:
        with pytest.raises(SnaptideError):
            change(jfk, statement)
    assert left_over(goods) == {}
    assert deferred.list_errors(hq) == []
    if undone:
        run(hq, undone)
    settle(jfk)
    for statement in refused:
        change(jfk, statement)
    settle(jfk)
    assert_equal_to_master(jfk)
    assert run(hq, "SELECT qty FROM public.goods WHERE id IN (1, 9) ORDER BY id") == [
        (70,),
        (9,),
    ]


def test_a_value_that_an_enum_gets_is_used_as_soon_as_both_have_it(
    goods: Directory,
) -> None:
    hq, jfk = goods["hq"], goods["jfk"]
    change(jfk, UPDATE)
    bad = "ALTER TYPE public.mood ADD VALUE 'bad'"
    run(jfk, bad)
    statement = "UPDATE public.goods SET mood = 'bad' WHERE id = 1"
    with pytest.raises(RefusedByMaster, match="bad"):
        change(jfk, statement)
    run(hq, bad)
    change(jfk, statement)
    assert run(hq, "SELECT mood FROM public.goods WHERE id = 1") == [("bad",)]
    settle(jfk)
    assert_equal_to_master(jfk)
