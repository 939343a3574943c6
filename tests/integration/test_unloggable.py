"""Tables whose changes no log can tell: they are refused, or found later."""

import pytest

import groups
import masters
import snapshots
from groups import TargetType
from groups.errors import CannotReplicate
from masters.errors import CannotLogTable
from sites import Directory, Site
from snapshots.definitions.errors import UnusableTable
from snaptide import doctor
from tests.fix_sites import log
from tests.grouped import GROUP, found_group
from tests.linked_table import ORDERS, run
from tests.stories import refresh

#: How a table has rows that go with a crash.
UNLOGGED = {
    "table": ("CREATE UNLOGGED TABLE public.t (id int PRIMARY KEY)",),
    "partition": (
        "CREATE TABLE public.t (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE UNLOGGED TABLE public.part PARTITION OF public.t DEFAULT",
    ),
    "child": (
        "CREATE TABLE public.t (id int PRIMARY KEY)",
        "CREATE UNLOGGED TABLE public.part () INHERITS (public.t)",
    ),
}


@pytest.mark.parametrize("how", UNLOGGED)
def test_an_unlogged_table_is_refused(sites: Directory, how: str) -> None:
    hq = sites["hq"]
    run(hq, *UNLOGGED[how])
    with pytest.raises(CannotLogTable, match="is UNLOGGED"):
        masters.create_snapshot_log(hq, "t")
    groups.create_group(hq, GROUP)
    with pytest.raises(CannotReplicate, match="is UNLOGGED"):
        groups.add_table(hq, GROUP, "t")
    assert masters.list_snapshot_logs(hq) == []


def test_a_master_that_takes_what_comes_keeps_it(sites: Directory) -> None:
    """Nobody compares its rows: those that a crash has taken would not be missed."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(jfk, f"CREATE UNLOGGED TABLE public.orders ({ORDERS})")
    run(jfk, "CREATE UNLOGGED TABLE public.t (id int PRIMARY KEY)")
    found_group(sites, "hq")
    unprotected = TargetType.UNPROTECTED_READ_ONLY
    with pytest.raises(CannotReplicate, match="orders is UNLOGGED"):
        groups.add_master(hq, GROUP, "jfk", target_type=unprotected)
    run(jfk, "ALTER TABLE public.orders SET LOGGED")
    groups.add_master(hq, GROUP, "jfk", target_type=unprotected)
    run(hq, "CREATE TABLE public.t (id int PRIMARY KEY)")
    with pytest.raises(CannotReplicate, match="t is UNLOGGED"):
        groups.add_table(hq, GROUP, "t")


def test_a_table_of_a_group_that_becomes_unlogged_is_found(sites: Directory) -> None:
    found_group(sites, "hq", "jfk")
    assert "UNLOGGED" not in _found(sites["hq"], "orders")
    run(sites["hq"], "ALTER TABLE public.orders SET UNLOGGED")
    assert "UNLOGGED" in _found(sites["hq"], "orders")


@pytest.fixture(params=[True, False], ids=["updatable", "read-only"])
def tier(request: pytest.FixtureRequest, sites: Directory, spark: object) -> Directory:
    """A snapshot at jfk, of which there could be others."""
    run(sites["hq"], "CREATE TABLE public.t (id int PRIMARY KEY, v int)")
    log(sites["hq"], "t")
    snapshots.create(sites["jfk"], "t", master="hq", updatable=request.param)
    return sites


@pytest.mark.parametrize("loaded", [True, False])
def test_the_base_table_of_a_snapshot_is_refused(tier: Directory, loaded: bool) -> None:
    jfk = tier["jfk"]
    if loaded:
        refresh(jfk, "t")
    run(jfk, "CREATE TABLE public.above (id int NOT NULL, v int)")
    run(jfk, 'ALTER TABLE public."snap$_t" INHERIT public.above')
    for table in ('"snap$_t"', "above"):
        with pytest.raises(CannotLogTable, match="is the base table of snapshot t"):
            masters.create_snapshot_log(jfk, table, with_rowid=True)
    groups.create_group(jfk, GROUP)
    if loaded:
        with pytest.raises(CannotReplicate, match="is the base table of snapshot t"):
            groups.add_table(jfk, GROUP, '"snap$_t"')


def test_a_table_that_becomes_one_later_is_found(tier: Directory) -> None:
    """The log was there first: no snapshot of the table is made any more."""
    hq, jfk = tier["hq"], tier["jfk"]
    refresh(jfk, "t")
    run(jfk, "CREATE TABLE public.above (id int PRIMARY KEY, v int)")
    log(jfk, "above")
    run(
        jfk,
        'ALTER TABLE public."snap$_t" ALTER id SET NOT NULL',
        'ALTER TABLE public."snap$_t" INHERIT public.above',
    )
    with pytest.raises(UnusableTable, match="is the base table of snapshot t"):
        snapshots.create(hq, "above", master="jfk")
    run(hq, "ALTER TABLE public.t SET UNLOGGED")
    assert "would not reach" in _found(jfk, "above")
    assert "UNLOGGED" in _found(hq, "t")


#: How a table becomes a part of another one.
PARTS = {
    "partition": (
        "CREATE TABLE public.above (id int, v int) PARTITION BY RANGE (id)",
        "ALTER TABLE public.above ATTACH PARTITION public.t DEFAULT",
    ),
    "child": (
        "CREATE TABLE public.above (id int NOT NULL, v int)",
        "ALTER TABLE public.t INHERIT public.above",
    ),
}


@pytest.mark.parametrize("how", PARTS)
def test_a_part_of_another_table_is_refused(sites: Directory, how: str) -> None:
    """A statement on the other table fires no trigger of the part."""
    hq = sites["hq"]
    run(hq, "CREATE TABLE public.t (id int PRIMARY KEY, v int)", *PARTS[how])
    with pytest.raises(CannotLogTable, match="statements on above change its rows"):
        masters.create_snapshot_log(hq, "t")
    assert masters.list_snapshot_logs(hq) == []


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("how", PARTS)
def test_what_another_table_changes_comes_all_the_same(
    sites: Directory, how: str
) -> None:
    """The table became a part of it after it got its log."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, "CREATE TABLE public.t (id int PRIMARY KEY, v int)")
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    run(hq, "INSERT INTO public.t VALUES (1, 0), (2, 0)")
    refresh(jfk, "t")
    run(hq, *PARTS[how])
    assert "statements on above change its rows" in _found(hq, "t")
    refresh(jfk, "t")
    run(hq, "UPDATE public.above SET v = 7 WHERE id = 1")
    run(hq, "DELETE FROM public.above WHERE id = 2")
    refresh(jfk, "t")
    assert run(jfk, "SELECT id, v FROM public.t") == [(1, 7)]
    with pytest.raises(UnusableTable, match="statements on above"):
        snapshots.create(jfk, "again", table="t", master="hq")


def test_a_base_table_that_becomes_a_part_is_found(tier: Directory) -> None:
    jfk = tier["jfk"]
    refresh(jfk, "t")
    run(
        jfk,
        "CREATE TABLE public.above (id int NOT NULL, v int)",
        'ALTER TABLE public."snap$_t" INHERIT public.above',
    )
    [one] = snapshots.list_snapshots(jfk)
    told = _found(jfk, "table snap$_t") + _found(jfk, "snap$_t")
    assert ("statements on above change its rows" in told) == one.updatable


def _found(site: Site, subject: str) -> str:
    """What doctor says of something."""
    return " ".join(f.what for f in doctor.examine(site) if f.subject == subject)


def test_a_base_table_that_becomes_unlogged_is_found(tier: Directory) -> None:
    """A crash would empty it, and no fast refresh looks at rows that do not change."""
    jfk = tier["jfk"]
    refresh(jfk, "t")
    assert "UNLOGGED" not in _found(jfk, "snap$_t")
    run(jfk, 'ALTER TABLE public."snap$_t" SET UNLOGGED')
    assert "UNLOGGED" in _found(jfk, "snap$_t")
