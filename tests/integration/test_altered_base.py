"""Columns of a base table that are renamed, come or go: users go on writing."""

import psycopg
import pytest

import deferred
import snapshots
from sites import Directory, Site
from snapshots.errors import ColumnGone
from snaptide import migrate
from tests.fix_sites import log
from tests.linked_table import queued, run
from tests.stories import assert_equal_to_master, refresh


@pytest.fixture
def altered(sites: Directory) -> Directory:
    """An updatable snapshot, two columns of which have got other names."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.t (id int PRIMARY KEY, a text, b text)",
        "INSERT INTO public.t VALUES (1, 'a', 'b'), (2, 'a', 'b')",
    )
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    refresh(jfk, "t")
    run(
        jfk,
        'ALTER TABLE public."snap$_t" RENAME id TO number',
        'ALTER TABLE public."snap$_t" RENAME a TO first',
        'ALTER TABLE public."snap$_t" ADD a text',
    )
    return sites


@pytest.mark.usefixtures("spark")
def test_users_write_to_renamed_columns(altered: Directory) -> None:
    hq, jfk = altered["hq"], altered["jfk"]
    run(jfk, "UPDATE public.t SET a = 'changed' WHERE id = 1")
    run(jfk, "INSERT INTO public.t VALUES (3, 'new', 'row')")
    run(jfk, "UPDATE public.\"snap$_t\" SET number = 4, a = 'mine' WHERE number = 2")
    run(jfk, "DELETE FROM public.t WHERE id = 3")
    assert queued(jfk) == 4
    assert deferred.push(jfk).errors == 0
    there = [(1, "changed", "b"), (4, "a", "b")]
    assert run(hq, "SELECT * FROM public.t ORDER BY 1") == there

    with pytest.raises(ColumnGone, match="no longer has the column id"):
        refresh(jfk, "t")
    run(
        jfk,
        'ALTER TABLE public."snap$_t" DROP a',
        'ALTER TABLE public."snap$_t" RENAME first TO a',
        'ALTER TABLE public."snap$_t" RENAME number TO id',
    )
    run(jfk, "UPDATE public.t SET b = 'again' WHERE id = 1")
    deferred.push(jfk)
    refresh(jfk, "t")
    assert_equal_to_master(jfk)


@pytest.mark.usefixtures("spark")
def test_what_is_left_of_a_dropped_column_is_not_written(altered: Directory) -> None:
    """A column less in between: the values of one must not stand for another's."""
    jfk = altered["jfk"]
    run(
        jfk,
        'ALTER TABLE public."snap$_t" DROP first CASCADE',
        'CREATE VIEW public.t AS SELECT number AS id, a, b FROM public."snap$_t"',
    )
    with pytest.raises(psycopg.errors.UndefinedColumn, match="is gone from this table"):
        _as_user(jfk.url.set(drivername="postgresql"))
    assert queued(jfk) == 0


@pytest.mark.usefixtures("spark")
def test_a_column_that_comes_again_is_another_one(sites: Directory) -> None:
    """It has the name of the one before, and another place."""
    jfk = _with_own_column(sites)
    run(
        jfk,
        'ALTER TABLE public."snap$_t" DROP a CASCADE',
        'ALTER TABLE public."snap$_t" ADD a text',
        'CREATE VIEW public.t AS SELECT id, a, b FROM public."snap$_t"',
    )
    with pytest.raises(psycopg.errors.UndefinedColumn, match="is gone from this table"):
        _as_user(jfk.url.set(drivername="postgresql"))
    assert queued(jfk) == 0


@pytest.mark.usefixtures("spark")
def test_a_column_of_the_users_own_goes_after_an_upgrade(sites: Directory) -> None:
    """The functions were made anew while it was there."""
    jfk = _with_own_column(sites)
    migrate.upgrade(jfk)
    run(jfk, 'ALTER TABLE public."snap$_t" DROP mine')
    _as_user(jfk.url.set(drivername="postgresql"))
    assert queued(jfk) == 1
    assert deferred.push(jfk).errors == 0
    assert run(sites["hq"], "SELECT * FROM public.t") == [(1, "a", "x")]


@pytest.mark.usefixtures("spark")
def test_columns_that_swap_names(sites: Directory) -> None:
    """Users see them through the view, as before; a refresh must not mix them."""
    hq, jfk = sites["hq"], _with_own_column(sites)
    swap = (
        'ALTER TABLE public."snap$_t" RENAME a TO c',
        'ALTER TABLE public."snap$_t" RENAME b TO a',
        'ALTER TABLE public."snap$_t" RENAME c TO b',
    )
    run(jfk, *swap)
    run(jfk, "UPDATE public.t SET a = 'A'")
    assert deferred.push(jfk).errors == 0
    assert run(hq, "SELECT * FROM public.t") == [(1, "A", "b")]
    for _ in range(2):
        with pytest.raises(ColumnGone, match="that are called a, b"):
            refresh(jfk, "t")
    run(jfk, *swap)
    refresh(jfk, "t")
    assert_equal_to_master(jfk)


def _with_own_column(sites: Directory) -> Site:
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.t (id int PRIMARY KEY, a text, b text)",
        "INSERT INTO public.t VALUES (1, 'a', 'b')",
    )
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    refresh(jfk, "t")
    run(jfk, 'ALTER TABLE public."snap$_t" ADD mine text')
    return jfk


def _as_user(url: object) -> None:
    with psycopg.connect(url.render_as_string(hide_password=False)) as session:  # type: ignore[attr-defined]
        session.execute("UPDATE public.t SET b = 'x' WHERE id = 1")


@pytest.mark.usefixtures("spark")
def test_a_condition_does_not_ask_a_column_of_the_users_own(sites: Directory) -> None:
    """It is called as the one that the condition asks at the master."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.p (id int PRIMARY KEY, region text)",
        "CREATE TABLE public.c (id int PRIMARY KEY, p int REFERENCES public.p)",
        "INSERT INTO public.p VALUES (1, 'east')",
        "INSERT INTO public.c VALUES (10, 1)",
    )
    log(hq, "p", "c")
    east = "EXISTS (SELECT FROM p WHERE p.id = c.p AND p.region = 'east')"
    snapshots.create(jfk, "p", master="hq", group="g", columns=["id"])
    snapshots.create(jfk, "c", master="hq", group="g", where=east)
    refresh(jfk, "g")
    run(jfk, "ALTER TABLE public.\"snap$_p\" ADD region text DEFAULT 'west'")
    run(hq, "UPDATE public.p SET region = 'west'")
    assert refresh(jfk, "g")["c"].left == 1
    assert_equal_to_master(jfk)
