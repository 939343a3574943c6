"""The work tables of small merges, which the sessions of a site keep."""

from __future__ import annotations

import pytest
from sqlalchemy import text

import snapshots
from sites import Directory, Site
from snapshots.errors import CannotMerge
from snapshots.merging import work
from snapshots.reports import RefreshReport
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import run, run_each
from tests.sent import sent

pytestmark = pytest.mark.usefixtures("spark")

ROWS = "SELECT * FROM public.t ORDER BY id"


@prepared_once("hq", "jfk", needs="spark")
def sites(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        'CREATE TABLE public.t (id int PRIMARY KEY, n int, note text COLLATE "C")',
        "INSERT INTO public.t SELECT i, i FROM generate_series(1, 9) i",
    )
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    snapshots.refresh(jfk, "t")


def refresh(site: Site) -> RefreshReport:
    return snapshots.refresh(site, "t", push_deferred_rpc=False)


def kept(site: Site) -> list[str]:
    """The work tables that sessions of the site have."""
    with site.connect() as connection:
        named = text(
            "SELECT relname::text FROM pg_class"
            " WHERE relname LIKE 'snaptide_merge_%' AND relkind = 'r'"
        )
        return list(connection.scalars(named))


def made(statements: list[str]) -> list[str]:
    return [one for one in statements if one.startswith("CREATE TEMP TABLE")]


def test_a_table_serves_refresh_after_refresh(hq: Site, jfk: Site) -> None:
    run(hq, "UPDATE public.t SET n = 0 WHERE id < 4")
    refresh(jfk)
    for change in (
        "UPDATE public.t SET n = n + 1 WHERE id = 4",
        "DELETE FROM public.t WHERE id = 5",
        "INSERT INTO public.t VALUES (10, 10)",
    ):
        run(hq, change)
        with sent(jfk) as statements:
            assert refresh(jfk).snapshots[0].held_back == 0
        assert not made(statements)
        assert run(jfk, ROWS) == run(hq, ROWS)
    assert len(kept(jfk)) == 1


def test_a_table_gives_back_the_space_of_long_values(hq: Site, jfk: Site) -> None:
    long = (
        f"(SELECT string_agg(md5((i + id)::text), '') FROM generate_series(1, {60}) i)"
    )
    for _ in range(8):
        run(hq, f"UPDATE public.t SET n = n + 1, note = {long}")
        with sent(jfk) as statements:
            refresh(jfk)
        assert run(jfk, ROWS) == run(hq, ROWS)
        if any(one.startswith("TRUNCATE") for one in statements):
            return
    pytest.fail("The table grows without end.")


def test_a_large_difference_has_a_table_of_its_own(hq: Site, jfk: Site) -> None:
    run(hq, f"INSERT INTO public.t SELECT generate_series(20, {20 + work._LARGE})")
    refresh(jfk)
    assert run(jfk, ROWS) == run(hq, ROWS)
    assert kept(jfk) == []


def test_a_table_that_was_rolled_back_is_made_again(hq: Site, jfk: Site) -> None:
    run_each(
        jfk,
        'CREATE RULE never AS ON UPDATE TO public."snap$_t" DO INSTEAD NOTHING',
    )
    run(hq, "UPDATE public.t SET n = 0 WHERE id = 1")
    with pytest.raises(CannotMerge):
        refresh(jfk)
    assert kept(jfk) == []
    run(jfk, 'DROP RULE never ON public."snap$_t"')
    refresh(jfk)
    assert run(jfk, ROWS) == run(hq, ROWS)
    assert len(kept(jfk)) == 1


def test_rows_that_a_rollback_left_are_not_written(hq: Site, jfk: Site) -> None:
    """The emptying of a kept table is rolled back with all else."""
    run(hq, "UPDATE public.t SET n = 0 WHERE id = 1")
    refresh(jfk)
    run(jfk, 'CREATE RULE never AS ON UPDATE TO public."snap$_t" DO INSTEAD NOTHING')
    run(hq, "UPDATE public.t SET n = 5 WHERE id = 1")
    with pytest.raises(CannotMerge):
        refresh(jfk)
    run(jfk, 'DROP RULE never ON public."snap$_t"')
    run(hq, "UPDATE public.t SET n = 7 WHERE id = 2")
    report = refresh(jfk)
    assert report.snapshots[0].updated == 2
    assert run(jfk, ROWS) == run(hq, ROWS)


def test_a_key_that_the_site_adds_is_heeded(hq: Site, jfk: Site) -> None:
    """Two rows exchange a value, so one of them is parked first."""
    run(hq, "UPDATE public.t SET n = 0 WHERE id = 1")
    refresh(jfk)
    run(jfk, 'CREATE UNIQUE INDEX ON public."snap$_t" (n)')
    run(hq, "UPDATE public.t SET n = 5 - n WHERE id IN (2, 3)")
    assert refresh(jfk).snapshots[0].updated == 2
    assert run(jfk, ROWS) == run(hq, ROWS)


def test_types_of_users_stay_theirs(hq: Site, jfk: Site) -> None:
    """A table that a session keeps would prevent that they are dropped or altered."""
    mood = "CREATE TYPE public.mood AS ENUM ('sad', 'happy')"
    run(hq, mood, "CREATE TABLE public.m (id int PRIMARY KEY, mood public.mood)")
    run(jfk, mood)
    log(hq, "m")
    snapshots.create(jfk, "m", master="hq")
    snapshots.refresh(jfk, "m")
    run(hq, "INSERT INTO public.m VALUES (1, 'sad')")
    snapshots.refresh(jfk, "m")
    assert run(jfk, "SELECT mood::text FROM public.m") == [("sad",)]
    assert kept(jfk) == []
