"""Types at both sites: the same, or the snapshot is refused with the reason."""

import pytest

import snapshots
from sites import Directory, Site
from sites.tables.definitions import UNREADABLE
from snapshots.definitions.errors import (
    DifferentTypes,
    UnreadableType,
)
from snaptide import doctor
from tests.fix_sites import log
from tests.linked_table import run

#: What makes a type, or a part of one, another at the site than at the master.
DIFFERENT = {
    "labels": "CREATE TYPE kind AS ENUM ('{b}', '{a}')",
    "base": "CREATE DOMAIN kind AS varchar({n})",
    "checks": "CREATE DOMAIN kind AS int CHECK (VALUE > {n})",
    "nulls": "CREATE DOMAIN kind AS int {null}",
    "attributes": "CREATE TYPE kind AS ({a} int, {b} int)",
    "range": "CREATE TYPE kind AS RANGE (subtype = int{n})",
    "below": "CREATE DOMAIN low AS int CHECK (VALUE <> {n}); CREATE DOMAIN kind AS low",
    "part": "CREATE TYPE part AS ENUM ('{a}', '{b}');"
    " CREATE TYPE kind AS (x int, y part[])",
    "collated": "CREATE COLLATION c (provider = libc, locale = '{locale}');"
    " CREATE DOMAIN kind AS text COLLATE c",
}
HERE = {"a": "two", "b": "one", "n": 8, "null": "NOT NULL", "locale": "C.utf8"}
THERE = {"a": "one", "b": "two", "n": 4, "null": "", "locale": "C"}


def test_types_that_are_others_at_the_site(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    for name, statement in DIFFERENT.items():
        for site, parts in ((hq, THERE), (jfk, HERE)):
            run(
                site,
                f"CREATE SCHEMA {name}",
                f"SET LOCAL search_path = {name}",
                statement.format(**parts),
            )
        run(hq, f"CREATE TABLE {name}.u (id int PRIMARY KEY, v {name}.kind[], w int)")
        log(hq, f"{name}.u")
        with pytest.raises(DifferentTypes, match=r" is .* here, .* at the mas") as no:
            snapshots.create(jfk, f"{name}.u", master="hq")
        assert f" {name}." in no.value.message
        snapshots.create(jfk, f"{name}.u", master="hq", columns=["id", "w"])
    assert len(run(hq, "SELECT * FROM snaptide.registered_snapshot")) == len(DIFFERENT)


def test_a_type_of_an_extension_is_the_same_everywhere(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    for site in (hq, jfk):
        run(site, "CREATE EXTENSION vector SCHEMA public")
    run(hq, "CREATE TABLE public.u (id int PRIMARY KEY, v public.vector(3))")
    log(hq, "u")
    assert snapshots.create(jfk, "u", master="hq").columns == ("id", "v")


def test_types_whose_values_cannot_be_read(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    for kind in UNREADABLE:
        run(hq, f"CREATE TABLE public.{kind} (id int PRIMARY KEY, v {kind})")
        log(hq, kind)
        with pytest.raises(UnreadableType, match=kind):
            snapshots.create(jfk, kind, master="hq")
    made = snapshots.create(jfk, kind, master="hq", columns=["id"])
    assert made.columns == ("id",)


def test_doctor_finds_types_that_were_altered(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    for site in (hq, jfk):
        run(
            site,
            "CREATE TYPE public.mood AS ENUM ('glad')",
            "CREATE DOMAIN public.small AS int CHECK (VALUE < 9)",
        )
    run(
        hq,
        "CREATE TABLE public.u (id int PRIMARY KEY, m public.mood[], s public.small)",
    )
    log(hq, "u")
    snapshots.create(jfk, "u", master="hq")
    before = findings(jfk)
    run(hq, "ALTER TYPE public.mood ADD VALUE 'sad'")
    run(jfk, "ALTER DOMAIN public.small ADD CHECK (VALUE > 0)")
    mood, small = sorted(set(findings(jfk)) - set(before))
    assert mood.startswith(
        "public.mood is labels 'glad' here, but labels 'glad', 'sad' at the master"
    )
    assert small.startswith(
        "public.small is domain over integer CHECK ((VALUE < 9)) CHECK ((VALUE > 0))"
        " here, but domain over integer CHECK ((VALUE < 9)) at the master"
    )


def findings(site: Site) -> list[str]:
    return [found.what for found in doctor.examine(site)]
