"""Oracle's acceptance statements for updatable snapshots, one test each."""

from collections.abc import Callable, Sequence

import pytest

import deferred
import masters
import snapshots
from sites import Directory, Site
from sites.names import quoted
from snapshots.errors import ErrorsAtMaster, RefreshError
from tests.fix_sites import log
from tests.linked_table import queued, run
from tests.stories import assert_equal_to_master, refresh, settle, unsettled

pytestmark = pytest.mark.usefixtures("spark")

ONE = "SELECT v FROM public.emp WHERE id = 1"


@pytest.fixture
def hq(sites: Directory) -> Site:
    run(
        sites["hq"],
        "CREATE TABLE public.emp (id int PRIMARY KEY, v text)",
        "INSERT INTO public.emp SELECT i, 'old' FROM generate_series(1, 9) i",
    )
    log(sites["hq"], "emp")
    return sites["hq"]


@pytest.fixture
def jfk(sites: Directory, hq: Site) -> Site:
    snapshots.create(sites["jfk"], "emp", master="hq", updatable=True)
    refresh(sites["jfk"], "emp")
    return sites["jfk"]


@pytest.fixture
def edited(jfk: Site) -> Site:
    run(jfk, "UPDATE public.emp SET v = 'new' WHERE id = 1")
    return jfk


def deftran(site: Site) -> int:
    return len(run(site, "SELECT 1 FROM snaptide.deftran"))


def test_a14_01_an_edit_is_local_and_queued(hq: Site, edited: Site) -> None:
    assert (run(edited, ONE), run(hq, ONE)) == ([("new",)], [("old",)])
    assert deftran(edited) == 1
    assert run(edited, "SELECT operation FROM snaptide.defcall") == [("U",)]
    assert [key for key, *_ in unsettled(edited, "emp")] == [1]


def test_a14_02_push_and_refresh(hq: Site, edited: Site) -> None:
    snapshots.refresh(edited, "emp", push_deferred_rpc=True)
    assert run(hq, ONE) == [("new",)]
    assert queued(edited) == 0
    assert unsettled(edited, "emp") == []
    assert_equal_to_master(edited)


def test_a14_03_refresh_without_push(hq: Site, edited: Site) -> None:
    snapshots.refresh(edited, "emp", push_deferred_rpc=False, keep_pending=False)
    assert run(edited, ONE) == [("old",)]
    assert queued(edited) == 1
    deferred.push(edited)
    refresh(edited, "emp")
    assert run(edited, ONE) == run(hq, ONE) == [("new",)]
    assert_equal_to_master(edited)


def test_a14_04_conflict_without_a_method(hq: Site, edited: Site) -> None:
    run(hq, "UPDATE public.emp SET v = 'theirs' WHERE id = 1")
    run(edited, "UPDATE public.emp SET v = 'new' WHERE id = 2")
    report = deferred.push(edited)
    assert (report.transactions, report.errors) == (2, 1)
    assert run(hq, "SELECT deferred_tran_db FROM snaptide.deferror") == [("jfk",)]
    assert run(hq, ONE) == [("theirs",)]
    assert queued(edited) == 0
    assert run(hq, "SELECT v FROM public.emp WHERE id = 2") == [("new",)]


def test_a14_05_one_row_in_conflict_stops_both(hq: Site, jfk: Site) -> None:
    run(hq, "UPDATE public.emp SET v = 'theirs' WHERE id = 1")
    run(
        jfk,
        "UPDATE public.emp SET v = 'new' WHERE id = 2",
        "UPDATE public.emp SET v = 'new' WHERE id = 1",
    )
    assert deferred.push(jfk).errors == 1
    assert run(hq, "SELECT id FROM public.emp WHERE v = 'new'") == []


def test_a14_06_refresh_after_errors(hq: Site, edited: Site) -> None:
    run(hq, "UPDATE public.emp SET v = 'theirs' WHERE id IN (1, 2)")
    deferred.push(edited)
    before = run(edited, "SELECT * FROM public.emp ORDER BY id")
    with pytest.raises(ErrorsAtMaster):
        snapshots.refresh(edited, "emp", refresh_after_errors=False)
    assert run(edited, "SELECT * FROM public.emp ORDER BY id") == before
    snapshots.refresh(edited, "emp", refresh_after_errors=True)
    assert run(edited, ONE) == [("theirs",)]
    assert_equal_to_master(edited)


@pytest.mark.parametrize(("method", "end"), [("additive", 12), ("average", 11)])
def test_a14_09_both_sites_end_with_what_the_method_makes(
    hq: Site, jfk: Site, method: str, end: int
) -> None:
    """Old 10; one site makes it 15, the other one 7."""
    run(hq, "ALTER TABLE public.emp ADD n int DEFAULT 10")
    snapshots.drop(jfk, "emp")
    snapshots.create(jfk, "emp", master="hq", updatable=True)
    refresh(jfk, "emp")
    masters.set_column_group(hq, "emp", "n", ["n"])
    masters.add_update_resolution(hq, "emp", "n", method)
    run(hq, "UPDATE public.emp SET n = 7 WHERE id = 1")
    run(jfk, "UPDATE public.emp SET n = 15 WHERE id = 1")
    settle(jfk)
    for site in (hq, jfk):
        assert run(site, "SELECT n FROM public.emp WHERE id = 1") == [(end,)]


@pytest.fixture
def three(sites: Directory) -> Sequence[str]:
    names = ("emp", "dept", "salary")
    for name in names:
        run(
            sites["hq"],
            f"CREATE TABLE public.{name} (id int PRIMARY KEY, v text)",
            f"INSERT INTO public.{name} SELECT i, 'old' FROM generate_series(1, 9) i",
        )
        log(sites["hq"], name)
        snapshots.create(sites["jfk"], name, master="hq", group="three")
    refresh(sites["jfk"], "three")
    return names


def test_a14_07_methods_in_their_order(sites: Directory, three: Sequence[str]) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    for name in three:
        run(hq, f"UPDATE public.{name} SET v = 'new' WHERE id = 1")
    report = refresh(jfk, ",".join(three), method="CF")
    assert [report[name].method for name in three] == ["complete", "fast", "fast"]
    # The third cannot be refreshed as asked: none is changed.
    for name in three:
        run(hq, f"UPDATE public.{name} SET v = 'newer' WHERE id = 2")
    masters.drop_snapshot_log(hq, "salary", force=True)
    with pytest.raises(RefreshError):
        refresh(jfk, ",".join(three), method="CFF")
    for name in three:
        assert run(jfk, f"SELECT 1 FROM public.{name} WHERE v = 'newer'") == []
    # And by default as well as it can be done: completely.
    report = refresh(jfk, ",".join(three), method="CF")
    assert [report[name].method for name in three] == ["complete", "fast", "complete"]
    assert_equal_to_master(jfk)


def test_a14_08_log_rows_go_when_the_slowest_has_them(
    make_sites: Callable[..., Directory],
) -> None:
    sites = make_sites("hq", "s1", "s2")
    hq, s1, s2 = sites["hq"], sites["s1"], sites["s2"]
    run(
        hq,
        "CREATE TABLE public.emp (id int PRIMARY KEY, v text)",
        "INSERT INTO public.emp SELECT i, 'old' FROM generate_series(1, 9) i",
    )
    log(hq, "emp")
    for site in (s1, s2):
        snapshots.create(site, "emp", master="hq")
        refresh(site, "emp")
    run(hq, "UPDATE public.emp SET v = 'new' WHERE id = 1")
    kept = f"SELECT k1 FROM snaptide.{quoted('mlog$_emp')}"
    assert refresh(s1, "emp")["emp"].updated == 1
    masters.purge_snapshot_logs(hq)
    assert run(hq, kept) == [(1,)]
    assert refresh(s2, "emp")["emp"].updated == 1
    masters.purge_snapshot_logs(hq)
    assert run(hq, kept) == []
    for site in (s1, s2):
        assert refresh(site, "emp")["emp"].window_keys == 0
        assert_equal_to_master(site)
