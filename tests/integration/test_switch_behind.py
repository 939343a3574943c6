"""A snapshot that stays behind its group goes to another master with it."""

import pytest

import groups
import masters
import snapshots
from sites import Directory
from tests.fix_worlds import prepared_once
from tests.grouped import GROUP, push_all
from tests.linked_table import run
from tests.stories import assert_equal_to_master

pytestmark = pytest.mark.usefixtures("spark")


@prepared_once("hq", "lax", "jfk")
def world(sites: Directory) -> None:
    """Two masters of two tables, and a group of snapshots, one of them behind."""
    hq, lax, jfk = (sites[name] for name in ("hq", "lax", "jfk"))
    for site in (hq, lax):
        for table in ("t", "u"):
            run(site, f"CREATE TABLE public.{table} (id int PRIMARY KEY, a text)")
            masters.create_snapshot_log(site, table)
    groups.create_group(hq, GROUP)
    for table in ("t", "u"):
        groups.add_table(hq, GROUP, table)
    groups.add_master(hq, GROUP, "lax")
    for table in ("t", "u"):
        snapshots.create(jfk, table, master="hq", group="g")
    snapshots.refresh(jfk, "g")
    run(hq, *(f"INSERT INTO public.{table} VALUES (1, 'A')" for table in ("t", "u")))
    push_all({"hq": hq, "lax": lax})
    run(jfk, 'ALTER TABLE public."snap$_t" RENAME a TO other')
    [left] = snapshots.refresh(jfk, "g").behind
    assert left.name == "t"


@pytest.mark.parametrize("mended", [True, False])
def test_no_row_is_lost(world: Directory, mended: bool) -> None:
    """What it lacks comes before the switch, or all rows are compared after it."""
    jfk, back = world["jfk"], 'ALTER TABLE public."snap$_t" RENAME other TO a'
    if mended:
        run(jfk, back)
    report = groups.switch_master(jfk, "g", to="lax")
    assert report.next_refresh == ("fast" if mended else "complete")
    if not mended:
        assert "no longer has the column a" in str(report.why)
        noted = "SELECT 1 FROM snaptide.snapshot WHERE behind IS NOT NULL"
        assert run(jfk, f"{noted} OR position IS NOT NULL") == []
        run(jfk, back)
    done = snapshots.refresh(jfk, "g")
    assert {one.method for one in done.snapshots} == {report.next_refresh}
    assert run(jfk, "SELECT * FROM public.t") == [(1, "A")]
    assert_equal_to_master(jfk)
