"""Changes of a site that still shows a column come to those in its place."""

from __future__ import annotations

from typing import Any

import pytest

import deferred
import masters
import snapshots
from sites import Directory, Site
from snaptide import migrate
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import run
from tests.split_people import DROP, SPLIT, found, people

pytestmark = pytest.mark.usefixtures("spark")


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    found(sites["hq"], sites["jfk"])


def split(hq: Site) -> None:
    snapshots.map_shape(hq, "people", **SPLIT)
    run(hq, DROP)


def write(jfk: Site) -> None:
    """Changes of every kind, some of which leave the name alone."""
    run(jfk, "UPDATE public.people SET full_name = 'Max Born' WHERE id = 1")
    run(jfk, "UPDATE public.people SET town = 'LGA' WHERE id = 2")
    run(jfk, "DELETE FROM public.people WHERE id = 3")
    run(jfk, "INSERT INTO public.people VALUES (5, 'Emmy Noether', 'JFK', 5)")
    run(jfk, "UPDATE public.people SET full_name = 'Amalie Noether' WHERE id = 5")
    run(jfk, "UPDATE public.people SET id = 6, full_name = 'Lise M' WHERE id = 4")


WRITTEN = [
    (1, "Max", "Born", "JFK"),
    (2, "Ada", "2", "LGA"),
    (5, "Amalie", "Noether", "JFK"),
    (6, "Lise", "M", "JFK"),
]

OPTIONS: dict[str, dict[str, Any]] = {
    "folded": {},
    "one by one": {"group_max_calls": 0},
    "folded, in bulk": {"bulk_threshold": 1},
    "one by one, in bulk": {"group_max_calls": 0, "bulk_threshold": 1},
    "in parallel": {"parallelism": 2},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_pushes_lift_what_an_old_site_changed(
    hq: Site, jfk: Site, options: dict[str, Any]
) -> None:
    write(jfk)
    split(hq)
    assert deferred.push(jfk, **options).errors == 0
    assert people(hq) == WRITTEN
    # What the site makes from now on, too.
    run(jfk, "UPDATE public.people SET full_name = 'Ada Byron' WHERE id = 2")
    assert deferred.push(jfk, **options).errors == 0
    assert people(hq)[1] == (2, "Ada", "Byron", "LGA")


def test_a_change_that_leaves_the_old_column_alone_is_in_no_conflict(
    hq: Site, jfk: Site
) -> None:
    """A lens may lose something: several rows of the master are shown alike."""
    split(hq)
    run(hq, "UPDATE public.people SET first = 'Ada 1', last = '' WHERE id = 1")
    run(hq, "UPDATE public.people SET first = 'Ada 2', last = 'B' WHERE id = 2")
    run(jfk, "UPDATE public.people SET town = 'LGA' WHERE id = 3")
    assert deferred.push(jfk).errors == 0
    run(jfk, "UPDATE public.people SET town = 'LGA' WHERE id = 2")
    # The site shows (2, 'Ada 2'), and the master has another name by now.
    assert deferred.push(jfk).errors == 1


def test_rows_that_are_shown_alike_are_not_in_conflict(hq: Site, jfk: Site) -> None:
    run(hq, "UPDATE public.people SET first = '', last = 'da 1' WHERE id = 1")
    snapshots.map_shape(
        hq, "people", **{**SPLIT, "backs": {"full_name": "'A' || first || last"}}
    )
    run(hq, DROP)
    run(jfk, "UPDATE public.people SET town = 'LGA' WHERE id = 1")
    assert deferred.push(jfk).errors == 0
    assert people(hq)[0] == (1, "", "da 1", "LGA")
    run(jfk, "UPDATE public.people SET full_name = 'Ada Byron' WHERE id = 1")
    assert deferred.push(jfk).errors == 0
    assert people(hq)[0] == (1, "Ada", "Byron", "LGA")


def test_conflicts_and_rules_see_the_new_columns(hq: Site, jfk: Site) -> None:
    split(hq)
    run(hq, "UPDATE public.people SET last = 'King' WHERE id IN (1, 2)")
    run(jfk, "UPDATE public.people SET full_name = 'Eva 1' WHERE id = 1")
    assert deferred.push(jfk).errors == 1
    (error,) = deferred.list_errors(hq)
    (call,) = deferred.show_error(hq, error.id).calls
    assert error.reason == "conflict"
    assert (call.new or {})["first"] == "Eva"
    assert "full_name" not in (call.new or {})

    masters.set_column_group(hq, "people", "name", ["first", "last"])
    masters.add_update_resolution(hq, "people", "name", "discard")
    run(jfk, "UPDATE public.people SET full_name = 'Eva 2' WHERE id = 2")
    report = deferred.push(jfk)
    assert (report.errors, report.conflicts_resolved) == (0, 1)
    assert people(hq)[1] == (2, "Ada", "King", "JFK")


def test_a_value_that_the_lens_cannot_lift_is_parked_as_it_is(
    hq: Site, jfk: Site
) -> None:
    run(hq, "ALTER TABLE public.people ADD number int")
    run(hq, "UPDATE public.people SET number = last::int")
    snapshots.map_shape(
        hq,
        "people",
        gone=["full_name"],
        sets={"number": "split_part(full_name, ' ', 2)::int"},
        backs={"full_name": "first || ' ' || number"},
    )
    run(hq, DROP)
    run(jfk, "UPDATE public.people SET full_name = 'Ada 10' WHERE id = 1")
    run(jfk, "UPDATE public.people SET full_name = 'Ada Byron' WHERE id = 2")
    run(jfk, "UPDATE public.people SET full_name = 'Ada 30' WHERE id = 3")
    assert deferred.push(jfk).errors == 1
    numbers = run(hq, "SELECT number FROM public.people ORDER BY id")
    assert numbers == [(10,), (2,), (30,), (4,)]
    (error,) = deferred.list_errors(hq)
    shown = deferred.show_error(hq, error.id)
    assert error.reason == "column gone"
    assert 'cannot lift that: invalid input syntax for type integer: "Byron"' in (
        shown.error_message
    )
    assert (shown.calls[0].new or {})["full_name (gone)"] == "Ada Byron"
    assert "number" not in (shown.calls[0].new or {})


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_an_expression_may_have_another_type(
    hq: Site, jfk: Site, options: dict[str, Any]
) -> None:
    """A column takes what can be assigned to it, and keeps its own digits."""
    run(
        hq,
        "ALTER TABLE public.people ADD letters text, ADD share numeric",
        "UPDATE public.people SET letters = '5', share = 12345678901234567890.5",
    )
    lens = {
        "sets": {"letters": "length(full_name)", "share": "length(full_name)::float8"},
        "backs": {"full_name": "'Ada ' || id"},
    }
    snapshots.map_shape(hq, "people", gone=["full_name"], **lens)
    run(hq, DROP)
    run(jfk, "UPDATE public.people SET town = 'LGA' WHERE id = 1")
    run(jfk, "UPDATE public.people SET full_name = 'Ada' WHERE id = 2")
    assert deferred.push(jfk, **options).errors == 0
    query = "SELECT town, letters, share::text FROM public.people ORDER BY id LIMIT 2"
    assert run(hq, query) == [
        ("LGA", "5", "12345678901234567890.5"),
        ("JFK", "3", "3"),
    ]


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_a_function_that_is_gone_stops_no_other_change(
    hq: Site, jfk: Site, options: dict[str, Any]
) -> None:
    run(
        hq,
        "CREATE FUNCTION public.head(text) RETURNS text IMMUTABLE LANGUAGE sql"
        " RETURN split_part($1, ' ', 1)",
        "CREATE TABLE public.other (id int PRIMARY KEY)",
    )
    log(hq, "other")
    snapshots.create(jfk, "other", master="hq", updatable=True)
    snapshots.refresh(jfk, "other")
    sets = {**SPLIT["sets"], "first": "head(full_name)"}
    snapshots.map_shape(hq, "people", **{**SPLIT, "sets": sets})
    run(hq, DROP, "DROP FUNCTION public.head")
    run(jfk, "UPDATE public.people SET full_name = 'Max Born' WHERE id = 1")
    run(jfk, "INSERT INTO public.other VALUES (1)")
    assert deferred.push(jfk, **options).errors == 1
    assert run(hq, "SELECT id FROM public.other") == [(1,)]
    (report,) = deferred.retry_errors(hq)
    assert "cannot lift a value: function public.head(text) does not" in report.reason
    (error,) = deferred.list_errors(hq)
    assert error.reason == "column gone"
    run(
        hq,
        "CREATE FUNCTION public.head(text) RETURNS text IMMUTABLE LANGUAGE sql"
        " RETURN split_part($1, ' ', 1)",
    )
    assert [one.reason for one in deferred.retry_errors(hq)] == [""]
    assert people(hq)[0] == (1, "Max", "Born", "JFK")


def test_a_column_without_a_lens_beside_one_that_fails(hq: Site, jfk: Site) -> None:
    run(hq, "ALTER TABLE public.people ADD number int")
    snapshots.map_shape(
        hq,
        "people",
        gone=["full_name"],
        sets={"number": "split_part(full_name, ' ', 2)::int"},
        backs={"full_name": "first || ' ' || number"},
    )
    run(hq, DROP, "ALTER TABLE public.people DROP desk")
    run(jfk, "UPDATE public.people SET full_name = 'Max Born', desk = 7 WHERE id = 1")
    assert deferred.push(jfk).errors == 1
    (error,) = deferred.list_errors(hq)
    shown = deferred.show_error(hq, error.id)
    assert "cannot lift that: invalid input syntax" in shown.error_message
    assert (shown.calls[0].new or {})["full_name (gone)"] == "Max Born"
    run(jfk, "UPDATE public.people SET full_name = 'Max 3', desk = 7 WHERE id = 3")
    assert deferred.push(jfk).errors == 1
    (_, error) = sorted(deferred.list_errors(hq), key=lambda one: one.id)
    shown = deferred.show_error(hq, error.id)
    assert "gives a value to a column without a lens, too. " in shown.error_message


def test_a_column_that_gets_another_type(hq: Site, jfk: Site) -> None:
    run(jfk, "UPDATE public.people SET desk = 7.5 WHERE id = 1")
    run(jfk, "INSERT INTO public.people VALUES (7, 'Ada 7', 'JFK', NULL)")
    run(
        hq,
        "ALTER TABLE public.people RENAME desk TO former",
        "ALTER TABLE public.people ADD desk text",
        "UPDATE public.people SET desk = 'D' || former",
        "ALTER TABLE public.people DROP former",
    )
    snapshots.map_shape(
        hq,
        "people",
        gone=["desk"],
        sets={"desk": "'D' || desk"},
        backs={"desk": "substr(desk, 2)::numeric"},
    )
    assert deferred.push(jfk).errors == 0
    desks = run(hq, "SELECT desk FROM public.people WHERE id IN (1, 2, 7) ORDER BY id")
    assert desks == [("D7.5",), ("D2.0",), (None,)]


def test_a_site_that_shows_a_new_column_itself_has_no_lens(hq: Site, jfk: Site) -> None:
    snapshots.alter_columns(jfk, "people", add=["first", "last"])
    split(hq)
    run(jfk, "UPDATE public.people SET full_name = 'Max Born' WHERE id = 1")
    run(jfk, "UPDATE public.people SET last = 'Byron' WHERE id = 2")
    assert deferred.push(jfk).errors == 1
    assert people(hq)[:2] == [(1, "Ada", "1", "JFK"), (2, "Ada", "Byron", "JFK")]


def test_several_columns_become_one(hq: Site, jfk: Site) -> None:
    run(
        hq,
        "ALTER TABLE public.people ADD place text",
        "UPDATE public.people SET place = town || '/' || desk",
    )
    run(jfk, "UPDATE public.people SET desk = 9 WHERE id = 1")
    run(jfk, "UPDATE public.people SET town = 'LGA', desk = 8 WHERE id = 2")
    run(jfk, "UPDATE public.people SET full_name = 'Max Born' WHERE id = 3")
    snapshots.map_shape(
        hq,
        "people",
        gone=["town", "desk"],
        sets={"place": "town || '/' || desk"},
        backs={
            "town": "split_part(place, '/', 1)",
            "desk": "split_part(place, '/', 2)::numeric",
        },
    )
    run(
        hq, "ALTER TABLE public.people DROP town", "ALTER TABLE public.people DROP desk"
    )
    assert deferred.push(jfk).errors == 0
    places = run(hq, "SELECT place FROM public.people ORDER BY id")
    assert places == [("JFK/9.0",), ("LGA/8.0",), ("JFK/3.0",), ("JFK/4.0",)]


def test_a_master_of_before_has_no_lenses(hq: Site, jfk: Site) -> None:
    run(hq, DROP)
    migrate.downgrade(hq, "0074")
    run(jfk, "UPDATE public.people SET full_name = 'Max Born' WHERE id = 1")
    run(jfk, "UPDATE public.people SET town = 'LGA' WHERE id = 2")
    assert deferred.push(jfk).errors == 1
    assert people(hq)[1] == (2, "Ada", "2", "LGA")
    migrate.upgrade(hq)
    snapshots.map_shape(hq, "people", **SPLIT)
    (report,) = deferred.retry_errors(hq)
    assert report.reason == ""
    assert people(hq)[0] == (1, "Max", "Born", "JFK")
