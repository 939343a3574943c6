"""Constraints that can be put off are so at sites too, as the master has them."""

import pytest

import deferred
import snapshots
from sites import Directory
from tests.fix_sites import log
from tests.linked_table import run

pytestmark = pytest.mark.usefixtures("spark")

PLACES = "SELECT id, place, name FROM public.places ORDER BY name"
PEOPLE = "SELECT id, mate FROM public.people ORDER BY id"

CONSTRAINTS = (
    "SELECT replace(c.relname, 'snap$_', ''), contype, condeferrable, condeferred"
    " FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid"
    " WHERE contype IN ('p', 'u', 'f') AND connamespace = 'public'::regnamespace"
    " ORDER BY 1, 2, 3"
)


@pytest.fixture
def jfk(sites: Directory):
    run(
        sites["hq"],
        "CREATE TABLE public.places (id int PRIMARY KEY DEFERRABLE, name text UNIQUE,"
        " place int NOT NULL UNIQUE DEFERRABLE INITIALLY DEFERRED)",
        "CREATE TABLE public.people (id int PRIMARY KEY, mate int NOT NULL"
        " REFERENCES public.people DEFERRABLE INITIALLY DEFERRED)",
        "INSERT INTO public.places SELECT i, 'p' || i, i FROM generate_series(1, 4) i",
        "INSERT INTO public.people VALUES (1, 2), (2, 1)",
    )
    log(sites["hq"], "places", "people")
    site = sites["jfk"]
    for name in ("places", "people"):
        snapshots.create(site, name, master="hq", group="g", updatable=True)
    snapshots.refresh(site, "g")
    return site


def settled(sites: Directory) -> None:
    """Push and refresh, and see that all is as at the master."""
    assert deferred.push(sites["jfk"]).errors == 0
    report = snapshots.refresh(sites["jfk"], "g")
    assert [one.held_back for one in report.snapshots] == [0, 0]
    for query in (PLACES, PEOPLE):
        assert run(sites["jfk"], query) == run(sites["hq"], query)


def test_constraints_are_copied_as_they_are(sites: Directory, jfk) -> None:
    assert run(jfk, CONSTRAINTS) == run(sites["hq"], CONSTRAINTS)


@pytest.mark.parametrize("at", ["jfk", "hq"])
def test_values_that_swap_in_one_statement(sites: Directory, jfk, at: str) -> None:
    run(
        sites[at],
        "UPDATE public.places SET place = 3 - place WHERE place < 3",
        "UPDATE public.places SET id = 7 - id WHERE id > 2",
    )
    settled(sites)
    assert run(jfk, PLACES) == [(1, 2, "p1"), (2, 1, "p2"), (4, 3, "p3"), (3, 4, "p4")]


@pytest.mark.parametrize("at", ["jfk", "hq"])
def test_value_that_passes_on_before_the_commit(sites: Directory, jfk, at: str) -> None:
    run(
        sites[at],
        "INSERT INTO public.places VALUES (9, 'new', 1)",
        "UPDATE public.places SET place = 9 WHERE id = 1",
    )
    run(
        sites[at],
        "UPDATE public.places SET place = 2 WHERE id = 3",
        "DELETE FROM public.places WHERE id = 2",
    )
    settled(sites)
    assert (9, 1, "new") in run(jfk, PLACES)


@pytest.mark.parametrize("at", ["jfk", "hq"])
def test_circle_of_references(sites: Directory, jfk, at: str) -> None:
    run(
        sites[at],
        "INSERT INTO public.people VALUES (3, 4)",
        "INSERT INTO public.people VALUES (4, 3)",
        "DELETE FROM public.people WHERE id = 1",
        "DELETE FROM public.people WHERE id = 2",
    )
    settled(sites)
    assert run(jfk, PEOPLE) == [(3, 4), (4, 3)]


def test_key_and_value_that_a_user_at_the_site_has_taken(sites: Directory, jfk) -> None:
    run(jfk, "INSERT INTO public.places VALUES (5, 'mine', 5), (6, 'mine too', 6)")
    run(
        sites["hq"], "INSERT INTO public.places VALUES (5, 'hq', 15), (16, 'hq too', 6)"
    )
    run(sites["hq"], "INSERT INTO public.places VALUES (17, 'free', 17)")
    snapshots.refresh(jfk, "g", push_deferred_rpc=False)
    held = {row[2] for row in run(jfk, PLACES)}
    assert {"mine", "mine too", "free"} <= held
    assert not held & {"hq", "hq too"}
