"""What the master refused is undone at the site by the next refresh, and only that."""

import pytest

import deferred
import snapshots
from sites import Directory, Site
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import run
from tests.stories import assert_equal_to_master, push_and_refresh, refresh

pytestmark = pytest.mark.usefixtures("spark")

ALL = "SELECT * FROM public.t ORDER BY id"


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.t (id int PRIMARY KEY, name text UNIQUE, v int)",
        "INSERT INTO public.t SELECT i, 'name ' || i, 0 FROM generate_series(1, 9) i",
    )
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    refresh(jfk, "t")


def test_refused_insert_is_gone(hq: Site, jfk: Site) -> None:
    run(hq, "INSERT INTO public.t VALUES (10, 'theirs', 0)")
    run(jfk, "INSERT INTO public.t VALUES (20, 'theirs', 0)")
    report = push_and_refresh(jfk, "t")
    assert report.errors == 1
    assert run(jfk, "SELECT id FROM public.t WHERE id > 9") == [(10,)]
    assert_equal_to_master(jfk)


def test_refused_update_is_reverted(hq: Site, jfk: Site) -> None:
    run(hq, "ALTER TABLE public.t ADD CHECK (v < 2)")
    run(jfk, "UPDATE public.t SET v = 2 WHERE id = 1")
    assert push_and_refresh(jfk, "t").errors == 1
    assert run(jfk, "SELECT v FROM public.t WHERE id = 1") == [(0,)]
    assert_equal_to_master(jfk)


def test_update_in_conflict_shows_the_masters_row(hq: Site, jfk: Site) -> None:
    run(hq, "UPDATE public.t SET v = 1 WHERE id = 1")
    run(jfk, "UPDATE public.t SET v = 2 WHERE id = 1")
    assert push_and_refresh(jfk, "t").errors == 1
    assert run(jfk, "SELECT v FROM public.t WHERE id = 1") == [(1,)]
    assert_equal_to_master(jfk)


def test_refused_delete_comes_back(hq: Site, jfk: Site) -> None:
    run(
        hq,
        "CREATE TABLE public.c (id int PRIMARY KEY, t int REFERENCES public.t)",
        "INSERT INTO public.c VALUES (1, 1)",
    )
    run(jfk, "DELETE FROM public.t WHERE id = 1")
    assert push_and_refresh(jfk, "t").errors == 1
    assert run(jfk, "SELECT v FROM public.t WHERE id = 1") == [(0,)]
    assert_equal_to_master(jfk)


def test_nothing_of_a_refused_transaction_stays(hq: Site, jfk: Site) -> None:
    run(hq, "UPDATE public.t SET v = 1 WHERE id = 1")
    # One change in conflict takes the innocent ones with it.
    run(
        jfk,
        "UPDATE public.t SET v = 2 WHERE id IN (1, 2)",
        "DELETE FROM public.t WHERE id = 3",
        "UPDATE public.t SET id = 40 WHERE id = 4",
        "INSERT INTO public.t VALUES (50, 'mine', 2)",
    )
    run(jfk, "UPDATE public.t SET v = 2 WHERE id = 9")
    report = push_and_refresh(jfk, "t")
    assert (report.transactions, report.errors) == (2, 1)
    assert_equal_to_master(jfk)
    assert run(jfk, "SELECT id FROM public.t WHERE v = 2") == [(9,)]


def test_deleted_error_and_retried_error(hq: Site, jfk: Site) -> None:
    run(hq, "UPDATE public.t SET v = 1 WHERE id IN (1, 2)")
    run(jfk, "UPDATE public.t SET v = 2 WHERE id = 1")
    run(jfk, "UPDATE public.t SET v = 2 WHERE id = 2")
    snapshots.refresh(jfk, "t")
    first, second = deferred.list_errors(hq)
    deferred.delete_errors(hq, [first.id])
    run(hq, "UPDATE public.t SET v = 0 WHERE id = 2")
    assert [r.applied for r in deferred.retry_errors(hq)] == [True]
    snapshots.refresh(jfk, "t")
    assert run(jfk, "SELECT v FROM public.t WHERE id IN (1, 2) ORDER BY id") == [
        (1,),
        (2,),
    ]
    assert second.id not in [e.id for e in deferred.list_errors(hq)]
    assert_equal_to_master(jfk)
