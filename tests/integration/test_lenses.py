"""A master declares which columns take the place of others, and for whom."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import deferred
import groups
import snapshots
from groups.errors import CannotReplicate
from masters.errors import (
    LensInUse,
    LensOfGroup,
    LensRefused,
    NoSnapshotLog,
    UnknownLens,
)
from masters.log import lenses
from sites import Directory, QualifiedName, Site
from sites.tables.table import describe
from snaptide import migrate
from tests.fix_commands import Snaptide
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.grouped import without
from tests.linked_table import run

pytestmark = pytest.mark.usefixtures("spark")

PEOPLE = (
    "CREATE TABLE public.people (id int PRIMARY KEY, full_name varchar(30),"
    " town text, desk numeric(4,1), first text, last text)"
)
SPLIT: dict[str, Any] = {
    "gone": ["full_name"],
    "sets": {
        "first": "split_part(full_name, ' ', 1)",
        "last": "split_part(full_name, ' ', 2)",
    },
    "backs": {"full_name": "first || ' ' || last"},
}
DROP = "ALTER TABLE public.people DROP full_name"
WAITS = "SELECT 1 FROM pg_locks WHERE NOT granted"


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    """A snapshot of before the split, of the rows of a town."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        PEOPLE,
        "INSERT INTO public.people VALUES (1, 'Ada Byron', 'JFK', 1.5),"
        " (2, 'Max Born', 'JFK', 2.5)",
    )
    log(hq, "people")
    snapshots.create(
        jfk,
        "people",
        master="hq",
        columns=["id", "full_name", "town", "desk"],
        where="town = 'JFK'",
        updatable=True,
    )
    snapshots.refresh(jfk, "people")


def declared(hq: Site) -> tuple[lenses.Lens, ...]:
    with hq.session() as connection:
        table = describe(connection, QualifiedName("public", "people"))
        return lenses.of_table(connection, table)


def in_effect(hq: Site) -> list[bool]:
    with hq.session() as connection:
        table = describe(connection, QualifiedName("public", "people"))
        found = lenses.of_table(connection, table)
        return [one.is_in_effect(table) for one in found]


def test_a_lens_takes_effect_when_its_columns_are_dropped(
    hq: Site, jfk: Site, snaptide: Snaptide
) -> None:
    report = snapshots.map_shape(hq, "people", **SPLIT)
    assert (report.table, report.away) == ("people", ())
    assert not report.lens.in_effect
    assert report.lens.backs == {"full_name": "((first || ' '::text) || last)"}
    (one,) = declared(hq)
    assert (one.columns, one.shared) == ({"first": 5, "last": 6}, frozenset())
    (gone,) = one.gone
    assert (gone.number, gone.type) == (2, "character varying")

    run(hq, DROP)
    assert in_effect(hq) == [True]
    old, own = snapshots.list_shapes(hq, "people")
    assert [lens.gone for lens in old.lenses] == [("full_name",)]
    assert [lens.in_effect for lens in own.lenses] == [True]
    printed = " ".join(snaptide.said("shape", "list", "hq").split())
    assert "for sites that show full_name: first = split_part(" in printed

    # Columns are known by number, whatever they are called.
    run(hq, "ALTER TABLE public.people RENAME first TO given")
    with hq.session() as connection:
        table = describe(connection, QualifiedName("public", "people"))
        (one,) = lenses.of_table(connection, table)
    assert one.is_in_effect(table)
    assert one.present(table) == {"first": "given", "last": "last"}
    run(hq, "ALTER TABLE public.people DROP last")
    assert in_effect(hq) == [False]


def test_after_the_drop_sites_know_number_and_type(hq: Site, jfk: Site) -> None:
    before = snapshots.map_shape(hq, "people", **SPLIT)
    first = declared(hq)
    snapshots.drop_shape(hq, "people", "full_name")
    assert declared(hq) == ()
    run(hq, DROP)
    after = snapshots.map_shape(hq, "people", **SPLIT)
    assert after.lens.in_effect
    assert [one.gone for one in declared(hq)] == [one.gone for one in first]
    assert after.lens.sets == before.lens.sets


def test_two_operators_declare_at_once(hq: Site, jfk: Site) -> None:
    """The second waits, and finds the lens of the first."""
    snapshots.map_shape(hq, "people", **SPLIT)
    (one,) = declared(hq)
    snapshots.drop_shape(hq, "people", "full_name")
    with ThreadPoolExecutor(1) as pool, hq.transaction() as first:
        table = describe(first, QualifiedName("public", "people"))
        parts = one.gone, one.sets, one.columns, one.shared
        lenses.note(first, table, *parts)
        second = pool.submit(snapshots.map_shape, hq, "people", **SPLIT)
        until = time.monotonic() + 90
        while not run(hq, WAITS):
            assert not second.done()
            assert time.monotonic() < until
            time.sleep(0.05)
        first.commit()
    with pytest.raises(LensRefused, match="another lens has column full_name"):
        second.result()
    assert len(declared(hq)) == 1


def test_a_column_of_another_type_takes_the_name(hq: Site, jfk: Site) -> None:
    run(
        hq,
        "ALTER TABLE public.people DROP desk",
        "ALTER TABLE public.people ADD desk text",
    )
    retyped: dict[str, Any] = {
        "gone": ["desk"],
        "sets": {"desk": "'D' || desk"},
        "backs": {"desk": "substr(desk, 2)::numeric"},
    }
    lens = snapshots.map_shape(hq, "people", **retyped).lens
    assert lens.in_effect
    assert lens.sets == {"desk": "('D'::text || desk)"}
    (one,) = declared(hq)
    assert [(gone.number, gone.type) for gone in one.gone] == [(4, "numeric(1000,1)")]


def test_several_columns_become_one(hq: Site, jfk: Site) -> None:
    run(hq, "ALTER TABLE public.people ADD place text")
    report = snapshots.map_shape(
        hq,
        "people",
        gone=["full_name", "desk"],
        sets={"place": "town || '/' || full_name || '/' || desk"},
        backs={
            "full_name": "split_part(place, '/', 2)",
            "desk": "split_part(place, '/', 3)::numeric",
        },
    )
    assert report.lens.gone == ("full_name", "desk")
    (one,) = declared(hq)
    assert one.shared == {"town"}
    assert one.applies_to([1, 2, 3, 4])
    assert not one.applies_to([1, 2, 4])  # without town
    assert not one.applies_to([1, 2, 3, 4, one.columns["place"]])


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"sets": {"first": "split_part(full_name"}}, "syntax error"),
        ({"sets": {"first": "now()::text"}}, "not immutable"),
        ({"sets": {"first": "last", "last": "town"}}, 'column "last" does not exist'),
        ({"sets": {"first": "nobody"}}, "It may use desk, full_name, id, last, town"),
        ({"sets": {"first": "max(full_name)"}}, "aggregate"),
        ({"sets": {"first": "(SELECT full_name)"}}, "subquery"),
        ({"sets": {"first": "tableoid::text"}}, "it uses tableoid"),
        ({"sets": {"first": "full_name), ADD y int DEFAULT (1"}}, "syntax error"),
        ({"sets": {"first": "full_name; DROP TABLE people"}}, "syntax error"),
        ({"backs": {"full_name": "full_name"}}, 'column "full_name" does not exist'),
        (
            {"gone": ["desk"], "sets": {"first": "town"}, "backs": {"desk": "town"}},
            "is of type text",
        ),
        ({"backs": {}}, "for each old column the expression"),
        ({"sets": {}}, "one or more new columns"),
        ({"sets": {"given": "full_name"}}, "no column given: add"),
        ({"sets": {"id": "length(full_name)"}}, "column id identifies its rows"),
        ({"sets": {"town": "full_name"}}, "is in the condition of people of jfk"),
        ({"gone": ["town"], "backs": {"town": "last"}}, "in the condition"),
        ({"gone": ["away"], "backs": {"away": "last"}}, "no site shows a column away"),
    ],
)
def test_what_cannot_be_right_is_refused(
    hq: Site, changed: dict[str, Any], why: str
) -> None:
    asked = {**SPLIT, "sets": {"first": "upper(full_name)"}, **changed}
    with pytest.raises(LensRefused, match=r"lens|--") as refused:
        snapshots.map_shape(hq, "people", **asked)
    assert why in refused.value.message
    assert declared(hq) == ()
    assert run(hq, "SELECT count(*) FROM public.people") == [(2,)]


def test_a_column_is_in_one_lens(hq: Site) -> None:
    snapshots.map_shape(hq, "people", **SPLIT)
    for columns in ({"gone": ["full_name"]}, {"gone": ["desk"]}):
        (old,) = columns["gone"]
        asked: dict[str, Any] = {
            "gone": [old],
            "sets": {"last": f"{old}::text"},
            "backs": {old: "NULL"},
        }
        with pytest.raises(LensRefused, match="another lens has column"):
            snapshots.map_shape(hq, "people", **asked)


def test_no_lens_uses_what_another_one_has_dropped(hq: Site) -> None:
    """It would never take effect."""
    uses: dict[str, Any] = {
        "gone": ["desk"],
        "sets": {"last": "full_name || desk::text"},
        "backs": {"desk": "NULL"},
    }
    snapshots.map_shape(hq, "people", **SPLIT)
    run(hq, "ALTER TABLE public.people ADD more text")
    with pytest.raises(LensRefused, match='column "full_name" does not exist'):
        snapshots.map_shape(
            hq, "people", **{**uses, "sets": {"more": "full_name || desk::text"}}
        )
    snapshots.drop_shape(hq, "people", "full_name")
    snapshots.map_shape(hq, "people", **uses)
    names = {"sets": {"first": "full_name"}, "backs": {"full_name": "first"}}
    with pytest.raises(LensRefused, match="another lens uses column full_name"):
        snapshots.map_shape(hq, "people", gone=["full_name"], **names)


def test_keys_and_partition_columns_stay(hq: Site) -> None:
    run(hq, "ALTER TABLE public.people ADD UNIQUE (last)")
    with pytest.raises(LensRefused, match="of the key people_last_key"):
        snapshots.map_shape(hq, "people", **SPLIT)
    run(hq, "CREATE TABLE public.plain (id int PRIMARY KEY)")
    with pytest.raises(NoSnapshotLog):
        snapshots.map_shape(hq, "plain", **SPLIT)


def test_a_table_of_a_replication_group_has_none(hq: Site) -> None:
    run(hq, "CREATE TABLE public.shared (id int PRIMARY KEY, a text, b text)")
    log(hq, "shared")
    groups.create_group(hq, "both")
    groups.add_table(hq, "both", "shared")
    asked: dict[str, Any] = {"gone": ["a"], "sets": {"b": "a"}, "backs": {"a": "b"}}
    with pytest.raises(LensOfGroup):
        snapshots.map_shape(hq, "shared", **asked)


def test_a_table_with_a_lens_joins_no_replication_group(hq: Site) -> None:
    snapshots.map_shape(hq, "people", **SPLIT)
    groups.create_group(hq, "both")
    with pytest.raises(CannotReplicate, match="drop SITE people full_name"):
        groups.add_table(hq, "both", "people")
    snapshots.drop_shape(hq, "people", "full_name", force=True)
    assert [*map(str, groups.add_table(hq, "both", "people").tables)] == ["people"]


def test_it_stays_as_long_as_changes_may_need_it(
    sites: Directory, snaptide: Snaptide
) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    snapshots.map_shape(hq, "people", **SPLIT)
    run(hq, DROP)
    run(jfk, "UPDATE public.people SET full_name = 'Ada King' WHERE id = 1")
    with pytest.raises(LensInUse, match=r"jfk \(1 waiting\)"):
        snapshots.drop_shape(hq, "people", "full_name")
    with without(sites, "jfk") as left, pytest.raises(LensInUse, match="jfk"):
        snapshots.drop_shape(left["hq"], "people", "full_name")
    with pytest.raises(UnknownLens):
        snapshots.drop_shape(hq, "people", "first")
    snaptide.said("shape", "drop", "hq", "people", "full_name", "--force")
    assert declared(hq) == ()


def test_it_stays_for_what_is_parked_whatever_the_site_shows_by_now(
    sites: Directory,
) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(jfk, "UPDATE public.people SET full_name = 'Ada King' WHERE id = 1")
    filled = "UPDATE public.people SET first = 'Ada', last = 'Byron' WHERE id = 1"
    run(hq, filled, DROP)
    assert deferred.push(jfk).errors == 1
    snapshots.map_shape(hq, "people", **SPLIT)
    snapshots.alter_columns(jfk, "people", columns=["id", "town", "first", "last"])
    with pytest.raises(LensInUse, match="may wait: 1 of jfk parked"):
        snapshots.drop_shape(hq, "people", "full_name")
    snapshots.drop(jfk, "people")
    with pytest.raises(LensInUse, match="may wait: 1 of jfk parked"):
        snapshots.drop_shape(hq, "people", "full_name")
    assert [one.reason for one in deferred.retry_errors(hq)] == [""]
    snapshots.drop_shape(hq, "people", "full_name")
    assert run(hq, "SELECT last FROM public.people WHERE id = 1") == [("King",)]


def test_changes_of_a_site_that_has_followed_do_not_need_it(
    hq: Site, jfk: Site
) -> None:
    snapshots.map_shape(hq, "people", **SPLIT)
    run(hq, DROP)
    columns = ["id", "town", "desk", "first", "last"]
    snapshots.alter_columns(jfk, "people", columns=columns)
    run(jfk, "UPDATE public.people SET last = 'King' WHERE id = 1")
    snapshots.drop_shape(hq, "people", "full_name")
    assert declared(hq) == ()


def test_sites_that_do_not_answer_are_named(sites: Directory) -> None:
    with without(sites, "jfk") as left:
        report = snapshots.map_shape(left["hq"], "people", **SPLIT)
    assert report.away == ("jfk",)


def test_commands(hq: Site, snaptide: Snaptide) -> None:
    given = ("--gone", "full_name", "--back", "full_name=first || ' ' || last")
    sets = ("--set", "first=split_part(full_name, ' ', 1)", "--set", 'last="full_name"')
    told = snaptide.report("shape", "map", "hq", "people", *given, *sets)
    assert told["lens"]["gone"] == ["full_name"]
    assert told["lens"]["sets"]["last"] == "full_name"
    wrong = snaptide("shape", "map", "hq", "people", *given, "--set", "first")
    assert wrong.exit_code == 2
    assert "write COLUMN=SQL" in wrong.output
    snaptide.said("shape", "drop", "hq", "people", "full_name")


def test_a_master_of_before_has_none(hq: Site) -> None:
    snapshots.map_shape(hq, "people", **SPLIT)
    migrate.downgrade(hq, "0074")
    migrate.upgrade(hq)
    assert declared(hq) == ()
