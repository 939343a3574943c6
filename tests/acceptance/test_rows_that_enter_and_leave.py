"""Rows enter and leave a snapshot: by its condition, at both sides, by a resolution."""

import psycopg
import pytest

import snapshots
from sites import Directory, Site
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import run
from tests.stories import (
    assert_equal_to_master,
    column_groups,
    push_and_refresh,
    refresh,
    settle,
)

pytestmark = pytest.mark.usefixtures("spark")

IDS = "SELECT id FROM public.t ORDER BY id"


@prepared_once("hq", "jfk", "lga")
def airports(directory: Directory) -> None:
    """A master and two sites, each with the rows of its own region."""
    hq = directory["hq"]
    run(
        hq,
        "CREATE TABLE public.t (id int PRIMARY KEY, region text, v int, at int)",
        "INSERT INTO public.t SELECT i, (ARRAY['jfk', 'lga', 'ewr'])[i % 3 + 1], 0, 0"
        " FROM generate_series(0, 11) i",
    )
    log(hq, "t")
    for name in ("jfk", "lga"):
        snapshots.create(
            directory[name],
            "t",
            master="hq",
            where=f"region = '{name}' AND v >= 0",
            updatable=True,
        )
        refresh(directory[name], "t")


def ids(site: Site) -> list[object]:
    return [row[0] for row in run(site, IDS)]


def test_at_the_master(airports: Directory) -> None:
    hq, jfk, lga = (airports[name] for name in ("hq", "jfk", "lga"))
    assert (ids(jfk), ids(lga)) == ([0, 3, 6, 9], [1, 4, 7, 10])
    run(
        hq,
        "UPDATE public.t SET region = 'lga' WHERE id IN (0, 2)",
        "UPDATE public.t SET region = 'jfk' WHERE id IN (1, 5)",
        "UPDATE public.t SET v = -1 WHERE id = 3",
        "UPDATE public.t SET region = NULL WHERE id = 4",
        # There and back again, and through another key.
        "UPDATE public.t SET region = 'ewr' WHERE id = 6",
        "UPDATE public.t SET region = 'jfk' WHERE id = 6",
        "UPDATE public.t SET id = 100, region = 'lga' WHERE id = 9",
        "INSERT INTO public.t VALUES (20, 'jfk', 0, 0), (21, 'ewr', 0, 0)",
    )
    report = refresh(jfk, "t", allow_mass_delete=True)["t"]
    assert (report.inserted, report.updated, report.deleted) == (3, 0, 3)
    assert ids(jfk) == [1, 5, 6, 20]
    refresh(lga, "t")
    assert ids(lga) == [0, 2, 7, 10, 100]
    assert_equal_to_master(jfk, lga)
    run(hq, "UPDATE public.t SET v = 0 WHERE id = 3", "TRUNCATE public.t")
    for site in (jfk, lga):
        assert refresh(site, "t", allow_mass_delete=True)["t"].method == "complete"
        assert ids(site) == []


def test_a_site_cannot_write_what_is_not_its_own(airports: Directory) -> None:
    jfk = airports["jfk"]
    for statement in (
        "UPDATE public.t SET region = 'lga' WHERE id = 0",
        "UPDATE public.t SET v = -1 WHERE id = 0",
        "INSERT INTO public.t VALUES (30, 'lga', 0, 0)",
    ):
        with pytest.raises(psycopg.Error, match="check option"):
            run(jfk, statement)
    # Rows that it does not see it cannot touch either.
    run(
        jfk,
        "UPDATE public.t SET v = 5 WHERE id = 1",
        "DELETE FROM public.t WHERE id = 4",
    )
    assert push_and_refresh(jfk, "t").transactions == 0


def test_site_edits_a_row_that_left(airports: Directory) -> None:
    """No rule: the edit is parked, and the row is gone where it does not belong."""
    hq, jfk, lga = (airports[name] for name in ("hq", "jfk", "lga"))
    run(hq, "UPDATE public.t SET region = 'lga' WHERE id = 0")
    run(jfk, "UPDATE public.t SET v = 7 WHERE id = 0")
    # Pending, so that it stays until the master has answered.
    assert refresh(jfk, "t")["t"].held_back == 1
    assert push_and_refresh(jfk, "t").errors == 1
    assert 0 not in ids(jfk)
    refresh(lga, "t")
    assert run(lga, "SELECT v FROM public.t WHERE id = 0") == [(0,)]
    assert_equal_to_master(jfk, lga)


def test_resolved_conflict_moves_rows_between_sites(airports: Directory) -> None:
    """Each column by its own rule: the row goes where the master's region says."""
    hq, jfk, lga = (airports[name] for name in ("hq", "jfk", "lga"))
    column_groups(hq, "t", {"v": "overwrite", "region": "discard", "at": "additive"})
    run(hq, "UPDATE public.t SET region = 'lga', v = 1 WHERE id = 0")
    run(jfk, "UPDATE public.t SET v = 7, at = at + 1 WHERE id IN (0, 3)")
    report = push_and_refresh(jfk, "t")
    assert (report.errors, report.conflicts_resolved) == (0, 1)
    refresh(lga, "t")
    # The site's edit arrived at the site to which the row had moved meanwhile.
    assert run(lga, "SELECT v, at FROM public.t WHERE id = 0") == [(7, 1)]
    assert 0 not in ids(jfk)
    assert_equal_to_master(jfk, lga)


def test_resolution_brings_a_row_back(airports: Directory) -> None:
    """The master took the row out; the value of the site wins, and keeps it."""
    hq, jfk = airports["hq"], airports["jfk"]
    column_groups(hq, "t", {"v": "overwrite"})
    run(hq, "UPDATE public.t SET v = -1 WHERE id IN (0, 3)")
    refresh(jfk, "t")
    assert ids(jfk) == [6, 9]
    run(hq, "UPDATE public.t SET v = -1 WHERE id = 6")
    run(jfk, "UPDATE public.t SET v = 7 WHERE id = 6")
    report = push_and_refresh(jfk, "t")
    assert report.conflicts_resolved == 1
    assert run(jfk, "SELECT v FROM public.t WHERE id = 6") == [(7,)]
    assert_equal_to_master(jfk)


def test_insert_that_the_master_moves_elsewhere(airports: Directory) -> None:
    """A trigger at the master decides where a new row belongs."""
    hq, jfk, lga = (airports[name] for name in ("hq", "jfk", "lga"))
    run(
        hq,
        "CREATE FUNCTION public.assign() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN IF NEW.v > 100 THEN NEW.region := ''lga''; END IF; RETURN NEW; END'",
        "CREATE TRIGGER assign BEFORE INSERT OR UPDATE ON public.t"
        " FOR EACH ROW EXECUTE FUNCTION public.assign()",
    )
    run(jfk, "INSERT INTO public.t VALUES (40, 'jfk', 500, 0)")
    run(jfk, "UPDATE public.t SET v = 500 WHERE id = 0")
    assert push_and_refresh(jfk, "t").errors == 0
    assert ids(jfk) == [3, 6, 9]
    settle(jfk, lga)
    assert ids(lga) == [0, 1, 4, 7, 10, 40]
    assert_equal_to_master(jfk, lga)
