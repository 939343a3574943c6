"""Columns of a snapshot in use get the wider types that the master has."""

from typing import Any

import pytest
from sqlalchemy import text

import deferred
import masters
import snapshots
import synchronous
from masters.errors import DdlRefused
from sites import Directory, Site
from sites.errors import StillNeeded
from snapshots.creating import columns_widened
from snapshots.definitions.errors import ColumnsRefused
from tests.fix_commands import Snaptide
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.grouped import broken_off_at
from tests.linked_table import parked, queued, run
from tests.stories import assert_equal_to_master, refresh, settle

pytestmark = pytest.mark.usefixtures("spark")

WIDER = (
    'ALTER TABLE public.parts ALTER code TYPE text COLLATE "C",'
    " ALTER label TYPE varchar(50),"
    " ALTER qty TYPE bigint, ALTER price TYPE numeric(12,2), ALTER room TYPE int"
)
WIDENED = ["code", "label", "qty", "price", "room"]
TYPES = (
    "SELECT string_agg(format_type(atttypid, atttypmod), ',' ORDER BY attnum)"
    " FROM pg_attribute WHERE attrelid = 'public.{}'::regclass AND attnum > 0"
    " AND NOT attisdropped"
)
NARROW = (
    "integer,character varying(5),character varying(5),integer,numeric(8,2),smallint"
)
WIDE = "integer,text,character varying(50),bigint,numeric(12,2),integer"
FILE = "SELECT pg_relation_filenode('public.\"snap$_parts\"'::regclass)"
BEYOND = (
    "code = 'longer than five', label = 'longer than five', qty = 5000000000,"
    " price = 9999999.25, room = 100000"
)


@prepared_once("hq", "jfk", needs="spark")
def sites(sites: Directory) -> None:
    """An updatable snapshot with what users hang on it, and one to read."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        'CREATE TABLE public.parts (id int PRIMARY KEY, code varchar(5) COLLATE "C"'
        " DEFAULT 'new', label varchar(5), qty int DEFAULT 1, price numeric(8,2),"
        " room smallint, UNIQUE (code))",
        "CREATE INDEX ON public.parts (qty)",
        "INSERT INTO public.parts SELECT n, 'c' || n, 'l' || n, n, n, n"
        " FROM generate_series(1, 9) n",
    )
    log(hq, "parts")
    made: dict[str, Any] = {"master": "hq", "group": "all"}
    snapshots.create(jfk, "parts", where="qty > 0", updatable=True, **made)
    snapshots.create(jfk, "seen", table="parts", **made)
    snapshots.refresh(jfk, "all")
    run(
        jfk,
        "CREATE VIEW public.few AS SELECT id, code, qty FROM public.parts",
        "GRANT SELECT ON public.few TO pg_monitor",
        "GRANT SELECT, UPDATE ON public.parts TO pg_monitor",
        "ALTER VIEW public.parts ALTER room SET DEFAULT 7",
    )


def test_wider_types_come_while_changes_wait(hq: Site, jfk: Site) -> None:
    run(jfk, "UPDATE public.parts SET code = 'mine', qty = 2, price = 1 WHERE id = 1")
    run(jfk, "INSERT INTO public.parts (id) VALUES (10)")
    run(hq, WIDER)
    run(hq, f"UPDATE public.parts SET {BEYOND} WHERE id = 3")
    # One with a value that does not fit, and in `parts` two that were changed here.
    assert {n: one.held_back for n, one in refresh(jfk, "all").items()} == {
        "parts": 3,
        "seen": 1,
    }
    run(jfk, "UPDATE public.parts SET qty = 3 WHERE id = 2")

    for name in ("parts", "seen"):
        report = snapshots.alter_columns(jfk, name, widen=WIDENED)
        assert (report.pushed, report.left_out) == (0, ())
    assert queued(jfk) == 3
    assert [run(jfk, TYPES.format(name)) for name in ("parts", "seen")] == [
        [(WIDE,)],
        [(WIDE,)],
    ]
    assert run(jfk, TYPES.format('"snap$_parts"')) == [(WIDE,)]
    rights = "SELECT has_table_privilege('pg_monitor', 'public.{}', '{}')"
    assert run(jfk, rights.format("few", "SELECT")) == [(True,)]
    assert run(jfk, rights.format("parts", "UPDATE")) == [(True,)]
    assert run(
        jfk,
        "SELECT collation_name FROM information_schema.columns"
        " WHERE table_name = 'snap$_parts' AND column_name = 'code'",
    ) == [("C",)]

    another = BEYOND.replace("code = 'longer", "code = 'also longer")
    run(jfk, f"UPDATE public.parts SET {another} WHERE id = 4")
    run(jfk, "INSERT INTO public.parts (id, code) VALUES (11, 'longer than five, too')")
    assert run(jfk, "SELECT qty, room FROM public.parts WHERE id = 11") == [(1, 7)]
    assert deferred.push(jfk).errors == 0
    settle(jfk)
    assert_equal_to_master(jfk)
    found = "SELECT id, qty FROM public.parts WHERE id IN (1, 2, 3, 4) ORDER BY id"
    assert run(hq, found) == [(1, 2), (2, 3), (3, 5000000000), (4, 5000000000)]
    assert {one.method for one in refresh(jfk, "all").values()} == {"fast"}


def test_a_parked_change_arrives_with_its_narrow_values(hq: Site, jfk: Site) -> None:
    run(hq, "UPDATE public.parts SET qty = 100 WHERE id = 1")
    run(jfk, "UPDATE public.parts SET qty = 2, code = 'mine' WHERE id = 1")
    assert deferred.push(jfk).errors == 1
    run(hq, WIDER, "UPDATE public.parts SET qty = 1 WHERE id = 1")
    for name in ("parts", "seen"):
        snapshots.alter_columns(jfk, name, widen=WIDENED)
    run(hq, "UPDATE public.parts SET qty = 1 WHERE id = 1")
    assert [one.applied for one in deferred.retry_errors(hq)] == [True]
    assert parked(hq) == []
    settle(jfk)
    assert_equal_to_master(jfk)
    assert run(jfk, "SELECT code, qty FROM public.parts WHERE id = 1") == [("mine", 2)]


@pytest.mark.parametrize("push", [True, False])
def test_sites_follow_wider_types(hq: Site, jfk: Site, *, push: bool) -> None:
    """With what they have queued, and together with other changes of columns."""
    mine = "code = 'mine', label = 'my', qty = 2, price = 1"
    run(jfk, f"UPDATE public.parts SET {mine} WHERE id = 1")
    report = masters.execute_ddl(
        hq,
        f"{WIDER}; ALTER TABLE public.parts RENAME label TO tag;"
        "ALTER TABLE public.parts ALTER room DROP DEFAULT",
    )
    assert report.sites == ("jfk",)
    run(hq, "UPDATE public.parts SET qty = 5000000000, room = 100000 WHERE id = 3")
    found = snapshots.refresh(jfk, "all", push_deferred_rpc=push)
    assert found.behind == ()
    assert [run(jfk, TYPES.format(name)) for name in ("parts", "seen")] == [
        [(WIDE,)],
        [(WIDE,)],
    ]
    run(jfk, "UPDATE public.parts SET qty = 6000000000 WHERE id = 4")
    settle(jfk)
    assert_equal_to_master(jfk)
    seen = "SELECT id, tag, qty FROM public.parts WHERE id IN (1, 4) ORDER BY id"
    assert run(hq, seen) == [(1, "my", 2), (4, "l4", 6000000000)]
    assert snapshots.list_shape_differences(jfk, "seen") == []


def test_a_type_that_a_site_cannot_give_stays(
    hq: Site, jfk: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that do not fit are held back, and the others come."""
    monkeypatch.setattr(columns_widened, "SMALL", 0)
    masters.execute_ddl(hq, WIDER)
    run(
        hq,
        "UPDATE public.parts SET qty = 5000000000 WHERE id = 3",
        "UPDATE public.parts SET price = 9999999.25 WHERE id = 4",
    )
    report = snapshots.refresh(jfk, "all")
    assert report.behind == ()
    assert [one.held_back for one in report.snapshots] == [1, 1]
    [(types,)] = run(jfk, TYPES.format("parts"))
    assert types == "integer,text,character varying(50),integer,numeric(12,2),smallint"
    assert [one.what for one in snapshots.list_shape_differences(jfk, "seen")] == [
        "column qty",
        "column room",
    ]
    with pytest.raises(DdlRefused, match=r"label gets .* that does not hold all"):
        masters.execute_ddl(
            hq,
            "ALTER TABLE public.parts ADD more int;"
            "ALTER TABLE public.parts ALTER label TYPE varchar(30)",
        )


def test_rows_are_written_anew_only_where_they_are_few(
    hq: Site, jfk: Site, monkeypatch: pytest.MonkeyPatch, snaptide: Snaptide
) -> None:
    run(hq, WIDER)
    monkeypatch.setattr(columns_widened, "SMALL", 0)
    with pytest.raises(ColumnsRefused, match="column qty would keep users waiting"):
        snapshots.alter_columns(jfk, "parts", widen=WIDENED)
    assert run(jfk, TYPES.format("parts")) == [(NARROW,)]
    before = run(jfk, FILE)
    alter = ["snapshot", "alter", "jfk", "parts"]
    snaptide.said(*alter, "--widen", "code", "--widen", "label", "--widen", "price")
    assert run(jfk, FILE) == before
    settles = "snaptide snapshot alter jfk parts "
    found = snaptide.report("site", "diff", "jfk", "parts")
    assert [one["todo"] for one in found] == [
        f"{settles}--drop-column qty --add-column qty",
        f"{settles}--drop-column room --add-column room",
    ]
    monkeypatch.undo()
    found = snaptide.report("site", "diff", "jfk", "parts")
    assert [one["todo"] for one in found] == [
        f"{settles}--widen qty",
        f"{settles}--widen room",
    ]
    snaptide.said(*alter, "--widen", "qty", "--widen", "room")
    assert run(jfk, TYPES.format("parts")) == [(WIDE,)]
    settle(jfk)


def test_one_command_renames_drops_and_widens(hq: Site, jfk: Site) -> None:
    run(jfk, "UPDATE public.parts SET label = 'mine', price = 2 WHERE id = 1")
    run(
        hq,
        "ALTER TABLE public.parts RENAME label TO name",
        "ALTER TABLE public.parts ALTER name TYPE text, ALTER qty TYPE bigint,"
        " DROP room",
    )
    snapshots.alter_columns(
        jfk,
        "parts",
        rename={"label": "name"},
        drop=["room"],
        widen=["name", "qty"],
    )
    snapshots.alter_columns(
        jfk, "seen", rename={"label": "name"}, drop=["room"], widen=["name"]
    )
    assert run(jfk, TYPES.format("parts")) == [
        ("integer,character varying(5),text,bigint,numeric(8,2)",)
    ]
    settle(jfk)
    run(jfk, "UPDATE public.parts SET name = 'longer than five' WHERE id = 2")
    settle(jfk)
    assert_equal_to_master(jfk)
    found = "SELECT name FROM public.parts WHERE id IN (1, 2) ORDER BY id"
    assert run(hq, found) == [("mine",), ("longer than five",)]


REFUSED = {
    "the same": ("label", "SELECT 1", "is character varying.5. at the master, too"),
    "narrower": (
        "qty",
        "ALTER TABLE public.parts ALTER qty TYPE smallint",
        "no wider kind of integer",
    ),
    "another kind": (
        "label",
        "ALTER TABLE public.parts ALTER label TYPE bytea USING NULL",
        "no wider kind of character varying",
    ),
    "another collation": (
        "code",
        "ALTER TABLE public.parts ALTER code TYPE text",
        "column code has another collation",
    ),
    "the key": (
        "id",
        "ALTER TABLE public.parts ALTER id TYPE bigint",
        "column id identifies its rows",
    ),
    "unknown": ("none", "SELECT 1", "it has no column none"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_wider_is_refused(hq: Site, jfk: Site, what: str) -> None:
    name, statement, why = REFUSED[what]
    run(hq, statement)
    with pytest.raises(ColumnsRefused, match=why):
        snapshots.alter_columns(jfk, "parts", widen=[name])
    assert run(jfk, TYPES.format("parts")) == [(NARROW,)]


IN_THE_WAY = {
    "a trigger": (
        """CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN RETURN NEW; END'""",
        """CREATE TRIGGER note BEFORE UPDATE OF qty ON public."snap$_parts"
        FOR EACH ROW EXECUTE FUNCTION public.note()""",
    ),
    "a view": (
        "CREATE FUNCTION public.half(int) RETURNS int LANGUAGE sql AS 'SELECT $1 / 2'",
        "CREATE VIEW public.halves AS SELECT id, public.half(qty) FROM public.parts",
    ),
    "a generated column": (
        """ALTER TABLE public."snap$_parts" ADD twice int
        GENERATED ALWAYS AS (qty * 2) STORED""",
    ),
}


@pytest.mark.parametrize("what", IN_THE_WAY)
def test_what_needs_the_present_type_is_named(hq: Site, jfk: Site, what: str) -> None:
    run(jfk, *IN_THE_WAY[what])
    run(hq, WIDER)
    before = run(jfk, TYPES.format("parts"))
    with pytest.raises(StillNeeded, match=r"note|halves|twice"):
        snapshots.alter_columns(jfk, "parts", widen=["qty"])
    assert run(jfk, TYPES.format("parts")) == before
    run(jfk, "UPDATE public.parts SET qty = 2 WHERE id = 1")
    assert deferred.push(jfk).errors == 0


@pytest.mark.parametrize(
    ("point", "now"),
    [
        ("snapshot_alter.before_columns", NARROW),
        ("snapshot_alter.after_columns", WIDE),
    ],
)
def test_what_breaks_off_leaves_the_old_or_the_new_types(
    hq: Site, jfk: Site, point: str, now: str
) -> None:
    run(hq, WIDER)
    with broken_off_at(point):
        snapshots.alter_columns(jfk, "parts", widen=WIDENED)
    assert run(jfk, TYPES.format("parts")) == [(now,)]
    if now == NARROW:
        snapshots.alter_columns(jfk, "parts", widen=WIDENED)
    run(jfk, f"UPDATE public.parts SET {BEYOND} WHERE id = 1")
    settle(jfk)
    assert run(hq, "SELECT qty FROM public.parts WHERE id = 1") == [(5000000000,)]


def test_a_coordinator_sees_types_that_came_meanwhile(hq: Site, jfk: Site) -> None:
    """What it has learnt of the queue is from before; statements are kept a while."""

    def change(number: int, qty: int) -> None:
        with synchronous.begin(jfk) as connection:
            connection.execute(
                text(f"UPDATE public.parts SET qty = {qty} WHERE id = {number}")
            )

    snapshots.alter_propagation(jfk, "parts", synchronous=True)
    change(1, 11)
    snapshots.alter_propagation(jfk, "parts", synchronous=False)
    run(hq, WIDER)
    for name in ("parts", "seen"):
        snapshots.alter_columns(jfk, name, widen=WIDENED)
    refresh(jfk, "all")
    snapshots.alter_propagation(jfk, "parts", synchronous=True)
    change(2, 5000000000)
    settle(jfk)
    assert_equal_to_master(jfk)
    found = "SELECT qty FROM public.parts WHERE id IN (1, 2) ORDER BY id"
    assert run(hq, found) == [(11,), (5000000000,)]
