"""Two sites, each the master of a table of which the other holds a snapshot."""

import pytest

import deferred
import snapshots
from sites import Directory
from tests.fix_sites import log
from tests.linked_table import run
from tests.stories import refresh

pytestmark = pytest.mark.usefixtures("spark")


def test_a_site_is_pushed_to_and_refreshed_over_the_same_connections(
    sites: Directory,
) -> None:
    pairs = (
        ("hq", "jfk", "orders"),
        ("hq", "jfk", "lines"),
        ("jfk", "hq", "parts"),
    )
    for master, site, table in pairs:
        run(
            sites[master],
            f"CREATE TABLE public.{table} (id int PRIMARY KEY, v text)",
            f"INSERT INTO public.{table} VALUES (1, 'one')",
        )
        log(sites[master], table)
        snapshots.create(
            sites[site], table, master=master, group=f"of_{master}", updatable=True
        )
        refresh(sites[site], table)
    for value in ("two", "three"):
        run(sites["hq"], f"UPDATE public.parts SET v = '{value}'")
        assert deferred.push(sites["hq"], "jfk").errors == 0
        for table in ("orders", "lines"):
            run(sites["hq"], f"UPDATE public.{table} SET v = '{value}'")
        assert refresh(sites["jfk"], "of_hq")["lines"].updated == 1
    assert run(sites["jfk"], "SELECT v FROM public.parts") == [("three",)]
    assert run(sites["jfk"], "SELECT v FROM public.orders") == [("three",)]
