"""Parked changes of a column that is gone come to those in its place at a retry."""

from __future__ import annotations

import pytest

import deferred
import snapshots
from sites import Directory, Site
from tests.fix_worlds import prepared_once
from tests.linked_table import run
from tests.split_people import DROP, SPLIT, found, people

pytestmark = pytest.mark.usefixtures("spark")


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    found(sites["hq"], sites["jfk"])


def test_what_was_parked_before_the_lens_goes_through_at_retry(
    hq: Site, jfk: Site
) -> None:
    run(
        jfk,
        "UPDATE public.people SET full_name = 'Max Born' WHERE id = 1",
        "UPDATE public.people SET town = 'LGA' WHERE id = 2",
        "DELETE FROM public.people WHERE id = 3",
        "INSERT INTO public.people VALUES (5, 'Emmy Noether', 'JFK', 5)",
        "INSERT INTO public.people (id, town) VALUES (6, 'SFO')",
        "UPDATE public.people SET id = 7, full_name = 'Lise M' WHERE id = 4",
    )
    run(jfk, "UPDATE public.people SET full_name = 'Amalie N' WHERE id = 2")
    run(hq, DROP)
    assert deferred.push(jfk).errors == 2
    snapshots.map_shape(hq, "people", **SPLIT)
    # What the row shows is what the site saw.
    run(hq, "UPDATE public.people SET first = 'Ada', last = '2' WHERE id = 2")
    reports = deferred.retry_errors(hq, reason="column gone")
    assert [one.reason for one in reports] == [""]
    reports += deferred.retry_errors(hq)
    assert [one.reason for one in reports] == ["", ""]
    assert people(hq) == [
        (1, "Max", "Born", "JFK"),
        (2, "Amalie", "N", "LGA"),
        (5, "Emmy", "Noether", "JFK"),
        (6, None, None, "SFO"),
        (7, "Lise", "M", "JFK"),
    ]


def test_a_retry_finds_conflicts_of_the_new_columns(hq: Site, jfk: Site) -> None:
    run(jfk, "UPDATE public.people SET full_name = 'Max 1' WHERE id = 1")
    run(jfk, "UPDATE public.people SET full_name = 'Max 2' WHERE id = 2")
    run(hq, DROP)
    assert deferred.push(jfk).errors == 2
    snapshots.map_shape(hq, "people", **SPLIT)
    run(hq, "UPDATE public.people SET last = 'King' WHERE id = 1")
    first, second = deferred.retry_errors(hq)
    assert (first.applied, second.applied) == (False, True)
    assert "update conflict" in first.reason
    run(hq, "UPDATE public.people SET last = '1' WHERE id = 1")
    (again,) = deferred.retry_errors(hq, [first.error_id])
    assert again.reason == ""
    assert people(hq)[:2] == [(1, "Max", "1", "JFK"), (2, "Max", "2", "JFK")]


def test_a_retry_through_a_lens_that_fails_says_so(hq: Site, jfk: Site) -> None:
    run(hq, "ALTER TABLE public.people ADD number int")
    run(jfk, "UPDATE public.people SET full_name = 'Max Born' WHERE id = 1")
    run(hq, DROP)
    assert deferred.push(jfk).errors == 1
    snapshots.map_shape(
        hq,
        "people",
        gone=["full_name"],
        sets={"number": "split_part(full_name, ' ', 2)::int"},
        backs={"full_name": "first || ' ' || number"},
    )
    (report,) = deferred.retry_errors(hq)
    assert "cannot lift a value: invalid input syntax" in report.reason
    (error,) = deferred.list_errors(hq)
    (call,) = deferred.show_error(hq, error.id).calls
    assert (call.new or {})["full_name (gone)"] == "Max Born"
    (report,) = deferred.retry_errors(hq, [error.id], without_gone=True)
    assert report.reason == ""


def test_a_new_column_has_the_former_name_of_another(hq: Site, jfk: Site) -> None:
    """What was parked for that one goes to it, whatever it is called by now."""
    run(
        jfk,
        "UPDATE public.people SET full_name = 'Max Born', town = 'LGA' WHERE id = 1",
    )
    run(hq, DROP)
    assert deferred.push(jfk).errors == 1
    run(
        hq,
        "ALTER TABLE public.people DROP first",
        "ALTER TABLE public.people RENAME town TO first",
        "ALTER TABLE public.people RENAME last TO town",
        "ALTER TABLE public.people ADD last text",
        "UPDATE public.people SET last = 'Ada'",
    )
    lens = {
        "sets": {"last": SPLIT["sets"]["first"], "town": SPLIT["sets"]["last"]},
        "backs": {"full_name": "last || ' ' || town"},
    }
    snapshots.map_shape(hq, "people", gone=["full_name"], **lens)
    assert [one.reason for one in deferred.retry_errors(hq)] == [""]
    query = "SELECT last, town, first FROM public.people WHERE id = 1"
    assert run(hq, query) == [("Max", "Born", "LGA")]
