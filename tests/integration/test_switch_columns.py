"""Waiting changes go to the same columns at another master."""

import pytest

import deferred
import groups
import masters
import snapshots
from groups.errors import CannotSwitch
from sites import Directory
from tests.fix_worlds import prepared_once
from tests.grouped import GROUP, push_all, without
from tests.linked_table import run
from tests.stories import assert_equal_to_master, refresh

pytestmark = pytest.mark.usefixtures("spark")

SWAP = (
    "ALTER TABLE public.t RENAME a TO c; ALTER TABLE public.t RENAME b TO a;"
    "ALTER TABLE public.t RENAME c TO b"
)


@prepared_once("hq", "lax", "jfk")
def world(sites: Directory) -> None:
    """Two masters of a table, and a snapshot of hq with a change that waits."""
    for name in ("hq", "lax"):
        run(sites[name], "CREATE TABLE public.t (id int PRIMARY KEY, a text, b text)")
        masters.create_snapshot_log(sites[name], "t")
    groups.create_group(sites["hq"], GROUP)
    groups.add_table(sites["hq"], GROUP, "t")
    groups.add_master(sites["hq"], GROUP, "lax")
    run(sites["hq"], "INSERT INTO public.t VALUES (1, 'A', 'B')")
    push_all({name: sites[name] for name in ("hq", "lax")})
    snapshots.create(sites["jfk"], "t", master="hq", updatable=True)
    refresh(sites["jfk"], "t")
    run(sites["jfk"], "UPDATE public.t SET a = 'mine'")


def alter(world: Directory, statements: str, *, and_sites: bool = False) -> None:
    groups.suspend(world["hq"], GROUP)
    groups.execute_ddl(world["hq"], GROUP, statements, and_sites=and_sites)
    groups.resume(world["hq"], GROUP)


def test_names_that_were_exchanged_since_then(world: Directory) -> None:
    jfk = world["jfk"]
    alter(world, SWAP)
    with pytest.raises(CannotSwitch, match="does not have the columns of t"):
        groups.switch_master(jfk, "t", to="lax")
    alter(world, SWAP)
    groups.switch_master(jfk, "t", to="lax")
    deferred.push(jfk, "lax")
    refresh(jfk, "t")
    assert run(world["lax"], "SELECT a, b FROM public.t") == [("mine", "B")]
    assert_equal_to_master(jfk)


def test_other_ddl_is_no_reason(world: Directory) -> None:
    jfk = world["jfk"]
    alter(world, "ALTER TABLE public.t ADD more int")
    groups.switch_master(jfk, "t", to="lax")
    deferred.push(jfk, "lax")
    refresh(jfk, "t")
    assert run(world["lax"], "SELECT a, b FROM public.t") == [("mine", "B")]
    assert_equal_to_master(jfk)


def test_a_column_that_is_gone(world: Directory) -> None:
    """The change was made for the column of before."""
    jfk = world["jfk"]
    run(jfk, "UPDATE public.t SET b = 'mine'")
    alter(world, "ALTER TABLE public.t DROP b; ALTER TABLE public.t ADD b text")
    report = groups.switch_master(jfk, "t", to="lax")
    assert "parked at hq" in (report.why or "")
    assert [one.reason for one in deferred.list_errors(world["hq"])] == ["column gone"]
    snapshots.refresh(jfk, "t")
    assert run(world["lax"], "SELECT a, b FROM public.t") == [("mine", None)]
    assert_equal_to_master(jfk)


def test_a_column_that_was_renamed_and_a_master_that_is_gone(world: Directory) -> None:
    """Numbers of columns mean nothing at another master, and names have changed."""
    jfk = world["jfk"]
    groups.switch_master(jfk, "t", to="lax")
    run(jfk, "UPDATE public.t SET b = 'mine, too'")
    rename = "ALTER TABLE public.t RENAME a TO c"
    alter(world, rename, and_sites=True)
    with without(world, "lax") as left:
        hq, jfk = left["hq"], left["jfk"]
        with pytest.raises(CannotSwitch, match="t has no column 'a', which t has"):
            groups.switch_master(jfk, "t", to="hq")
        groups.forget_master(hq, GROUP, "lax")
        alter(left, "ALTER TABLE public.t RENAME c TO a")
        groups.switch_master(jfk, "t", to="hq")
        deferred.push(jfk, "hq")
        refresh(jfk, "t")
        alter(left, rename, and_sites=True)
        refresh(jfk, "t")
        assert run(hq, "SELECT c, b FROM public.t") == [("mine", "mine, too")]
        assert run(jfk, "SELECT c, b FROM public.t") == [("mine", "mine, too")]
