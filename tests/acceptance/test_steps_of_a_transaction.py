"""Transactions whose steps are not in the order in which they were recorded."""

import pytest

import deferred
import snapshots
from sites import Directory, Site
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import run
from tests.stories import assert_equal_to_master, push_and_refresh, refresh

pytestmark = pytest.mark.usefixtures("spark")


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.p (id int PRIMARY KEY, v text, children int DEFAULT 0)",
        "CREATE TABLE public.c (id int PRIMARY KEY, v text,"
        " p int REFERENCES public.p DEFERRABLE INITIALLY DEFERRED)",
        "INSERT INTO public.p SELECT i, 'a', 0 FROM generate_series(1, 9) i",
        "INSERT INTO public.c SELECT i, 'a', i FROM generate_series(1, 5) i",
    )
    log(hq, "p", "c")
    for name in ("p", "c"):
        snapshots.create(jfk, name, master="hq", group="g", updatable=True)
    refresh(jfk, "g")


def carry(hq: Site, jfk: Site) -> None:
    """Push and refresh; nothing may be refused, and all has to be equal."""
    before = run(jfk, "SELECT * FROM public.p ORDER BY id")
    report = push_and_refresh(jfk, "g")
    assert (report.transactions, report.errors) == (1, 0)
    assert run(jfk, "SELECT * FROM public.p ORDER BY id") == before
    assert_equal_to_master(jfk)


def trigger(site: Site, timing: str, table: str, body: str) -> None:
    """A trigger of a user's own on the base table of a snapshot."""
    run(
        site,
        "CREATE FUNCTION public.own() RETURNS trigger LANGUAGE plpgsql"
        f" AS $$ BEGIN {body} END $$",
        f'CREATE TRIGGER aa_own {timing} ON public."snap$_{table}"'
        " FOR EACH ROW EXECUTE FUNCTION public.own()",
    )


def test_trigger_that_updates_the_row_again(hq: Site, jfk: Site) -> None:
    trigger(
        jfk,
        "AFTER INSERT OR UPDATE",
        "p",
        "IF pg_trigger_depth() < 3 THEN"
        " UPDATE public.\"snap$_p\" SET v = v || '+' WHERE id = NEW.id;"
        " END IF; RETURN NULL;",
    )
    run(
        jfk,
        "UPDATE public.p SET v = 'b' WHERE id IN (1, 2)",
        "INSERT INTO public.p VALUES (10, 'new', 0)",
    )
    assert run(jfk, "SELECT v FROM public.p WHERE id IN (1, 10) ORDER BY id") == [
        ("b++",),
        ("new++",),
    ]
    report = push_and_refresh(jfk, "g")
    assert report.errors == 0
    assert run(hq, "SELECT v FROM public.p WHERE id IN (1, 10) ORDER BY id") == [
        ("b++",),
        ("new++",),
    ]
    assert_equal_to_master(jfk)


def test_trigger_that_counts_rows_of_another_captured_table(
    hq: Site, jfk: Site
) -> None:
    trigger(
        jfk,
        "AFTER INSERT OR DELETE",
        "c",
        'UPDATE public."snap$_p" SET children = children'
        " + CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END"
        " WHERE id = COALESCE(NEW.p, OLD.p); RETURN NULL;",
    )
    run(
        jfk,
        "INSERT INTO public.c SELECT i, 'new', 7 FROM generate_series(20, 29) i",
        "DELETE FROM public.c WHERE id IN (20, 21, 1)",
    )
    assert run(jfk, "SELECT children FROM public.p WHERE id IN (1, 7)") == [
        (-1,),
        (8,),
    ]
    carry(hq, jfk)


def test_trigger_that_touches_other_rows_while_a_refresh_merges(
    hq: Site, jfk: Site
) -> None:
    """What the trigger writes is a change of the site's own, and sent."""
    trigger(
        jfk,
        "AFTER INSERT",
        "c",
        'UPDATE public."snap$_p" SET children = children + 1 WHERE id = NEW.p;'
        " RETURN NULL;",
    )
    run(hq, "INSERT INTO public.c VALUES (30, 'hq', 3)")
    children = "SELECT children FROM public.p WHERE id = 3"
    before = run(hq, children)
    refresh(jfk, "g")
    assert deferred.push(jfk).transactions == 1
    refresh(jfk, "g")
    assert run(hq, children) != before
    assert_equal_to_master(jfk)


def test_delete_and_insert_of_one_key_in_one_with(hq: Site, jfk: Site) -> None:
    run(
        jfk,
        "WITH gone AS (DELETE FROM public.c WHERE id IN (1, 2) RETURNING *)"
        " INSERT INTO public.c SELECT id + 100, 'moved', p FROM gone",
    )
    run(
        jfk,
        'ALTER TABLE public."snap$_p" DROP CONSTRAINT IF EXISTS never',
        "DELETE FROM public.p WHERE id = 9",
        "INSERT INTO public.p VALUES (9, 'again', 5)",
    )
    report = push_and_refresh(jfk, "g")
    assert (report.transactions, report.errors) == (2, 0)
    assert run(hq, "SELECT v, children FROM public.p WHERE id = 9") == [("again", 5)]
    assert_equal_to_master(jfk)


def test_toggle(hq: Site, jfk: Site) -> None:
    run(jfk, *(f"UPDATE public.p SET v = '{v}' WHERE id = 1" for v in "babac"))
    run(hq, "UPDATE public.p SET v = v WHERE id = 2")
    carry(hq, jfk)
    assert run(hq, "SELECT v FROM public.p WHERE id = 1") == [("c",)]


def test_toggle_that_ends_where_it_began(hq: Site, jfk: Site) -> None:
    run(jfk, *(f"UPDATE public.p SET v = '{v}' WHERE id = 1" for v in "baba"))
    carry(hq, jfk)


def test_child_moves_and_its_old_parent_goes(hq: Site, jfk: Site) -> None:
    run(
        jfk,
        "UPDATE public.c SET p = 9 WHERE id = 1",
        "DELETE FROM public.p WHERE id = 1",
    )
    carry(hq, jfk)
    assert run(hq, "SELECT p FROM public.c WHERE id = 1") == [(9,)]


def test_child_is_written_before_its_parent(hq: Site, jfk: Site) -> None:
    run(
        jfk,
        "SET CONSTRAINTS ALL DEFERRED",
        "INSERT INTO public.c VALUES (40, 'new', 40)",
        "UPDATE public.c SET p = 41 WHERE id = 2",
        "INSERT INTO public.p VALUES (40, 'new', 0), (41, 'new', 0)",
    )
    carry(hq, jfk)


def test_child_is_written_before_its_parent_by_another_table_order(
    hq: Site, jfk: Site
) -> None:
    """The parent goes first for a moment, and comes back before the commit."""
    run(
        jfk,
        "SET CONSTRAINTS ALL DEFERRED",
        "DELETE FROM public.p WHERE id = 3",
        "UPDATE public.c SET v = 'b' WHERE id = 3",
        "INSERT INTO public.p VALUES (3, 'again', 0)",
    )
    carry(hq, jfk)


def test_savepoints_that_were_rolled_back_leave_nothing(hq: Site, jfk: Site) -> None:
    run(
        jfk,
        "SAVEPOINT a",
        "DELETE FROM public.c",
        "ROLLBACK TO a",
        "UPDATE public.p SET v = 'b' WHERE id = 1",
    )
    carry(hq, jfk)
    assert len(run(hq, "SELECT 1 FROM public.c")) == 5
