"""A group is changed at all masters or at none, wherever the change is cut off."""

import uuid
from collections.abc import Callable

import pytest
import sqlalchemy as sa

import groups
from groups.errors import DecidedElsewhere
from groups.everywhere import Branch
from groups.unfinished import finish
from sites import Directory, Site, faults
from tests.fix_worlds import prepared_once
from tests.grouped import (
    GROUP,
    assert_masters_equal,
    broken_off_at,
    found_group,
    found_with_ten_rows,
    push_all,
)
from tests.let_go import END_LOCKS
from tests.linked_table import ORDERS, run


@prepared_once("hq", "lax")
def two(sites: Directory) -> None:
    """Two masters of a group."""
    found_group(sites, "hq", "lax")


@pytest.mark.parametrize(
    ("point", "decided"),
    [("group.after_prepare", False), ("group.after_decision", True)],
)
def test_command_that_is_cut_off_is_finished_by_the_next(
    two: Directory, point: str, decided: bool
) -> None:
    """Before the decision nothing has happened anywhere, after it all of it does."""
    with broken_off_at(point):
        groups.set_paths(two["hq"], GROUP, groups.full_mesh)
    known = groups.show_group(two["hq"], GROUP).version
    assert known == (4 if decided else 3)
    after = groups.set_paths(two["hq"], GROUP, groups.full_mesh)
    assert after.version == known + 1
    report = groups.show_group(two["hq"], GROUP)
    assert [one.version for one in report.masters] == [after.version] * 2
    for name in ("hq", "lax"):
        assert run(two[name], "SELECT gid FROM pg_prepared_xacts") == []
    run(two["hq"], "INSERT INTO orders (id) VALUES (1)")
    assert push_all(two) == 1
    assert_masters_equal(two, "hq", "lax")


def test_nobody_undoes_what_is_about_to_be_decided(
    two: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker comes when the session that keeps others away was ended."""

    def end(point: str) -> None:
        if point == "group.after_prepare":
            run(two["hq"], END_LOCKS)
            finish(two["lax"])

    with monkeypatch.context() as patch:
        patch.setattr(faults, "point", end)
        groups.set_paths(two["hq"], GROUP, groups.full_mesh)

    report = groups.show_group(two["hq"], GROUP)
    assert {one.version for one in report.masters} == {report.version} == {4}
    assert prepared(two) == []


@pytest.mark.parametrize("lost", [1, 2])
def test_lost_master_undoes_nothing_at_the_others(
    make_sites: Callable[..., Directory], lost: int
) -> None:
    """After the decision all follow who can, whoever is lost among them."""
    sites = make_sites("hq", "lax", "bos", "jfk")
    found_group(sites, "hq", "lax", "bos", "jfk")
    with broken_off_at("group.before_branch", time=lost):
        groups.set_paths(sites["hq"], GROUP, groups.full_mesh)
    assert len(prepared(sites)) == 1
    report = groups.show_group(sites["hq"], GROUP)
    assert {one.version for one in report.masters} == {report.version}
    assert prepared(sites) == []
    run(sites["hq"], "INSERT INTO orders (id) VALUES (1)")
    assert push_all(sites) == 3
    assert_masters_equal(sites, "hq", "lax", "bos", "jfk")


@pytest.mark.parametrize(
    "cut_off",
    [
        lambda home: groups.drop_group(home, GROUP),
        lambda home: groups.remove_master(home, GROUP, "lax"),
    ],
)
def test_master_that_was_to_leave_is_not_left_alone(
    two: Directory, cut_off: Callable[[Site], object]
) -> None:
    """Nobody would come to it again: it asks the definition site by itself."""
    with broken_off_at("group.after_decision"):
        cut_off(two["hq"])
    assert len(prepared(two)) == 1
    assert groups.list_groups(two["lax"]) == []
    assert prepared(two) == []
    run(two["lax"], "INSERT INTO orders (id) VALUES (1)", "DELETE FROM orders")


def test_master_that_was_to_leave_joins_another_group(
    two: Directory,
) -> None:
    with broken_off_at("group.after_decision"):
        groups.drop_group(two["hq"], GROUP)
    found_group(two, "hq", "lax")
    run(two["hq"], "INSERT INTO orders (id) VALUES (1)")
    assert push_all(two) == 1
    assert_masters_equal(two, "hq", "lax")


@pytest.mark.usefixtures("spark")
def test_join_that_is_cut_off_after_its_decision_is_said_again(
    make_sites: Callable[..., Directory],
) -> None:
    """What is left prepared at the new master keeps nobody from emptying it."""
    sites = make_sites("hq", "lax", "bos")
    found_with_ten_rows(sites)
    with broken_off_at("group.after_decision"):
        groups.join_master(sites["hq"], GROUP, "bos")
    assert len(prepared(sites)) == 2
    with sites["bos"].begin() as connection:
        here = connection.engine.url.database
        # It would wait for ever.
        connection.exec_driver_sql(f"ALTER DATABASE {here} SET lock_timeout = '20s'")
    sites["bos"].close()
    assert groups.join_master(sites["hq"], GROUP, "bos").rows == 10
    assert prepared(sites) == []
    assert_masters_equal(sites, "hq", "lax", "bos")


def test_site_that_was_to_join_is_none_whatever_came_after(
    make_sites: Callable[..., Directory],
) -> None:
    """The version that was not decided then has been reached since."""
    sites = make_sites("hq", "lax", "bos")
    before = found_group(sites, "hq", "lax")
    gid = Branch(
        group=before.id,
        version=before.version + 1,
        leaves=False,
        home="hq",
        home_id=None,
    ).gid
    with sites["bos"].connect() as connection:
        branch = connection.begin_twophase(gid)
        connection.execute(sa.text(f"CREATE TABLE public.orders ({ORDERS})"))
        branch.prepare()
        connection.invalidate()
    groups.set_paths(sites["hq"], GROUP, groups.full_mesh)
    finish(sites["bos"])
    assert prepared(sites) == []
    assert run(sites["bos"], "SELECT to_regclass('orders')") == [(None,)]


def test_only_the_database_that_decides_is_asked(
    two: Directory, make_sites: Callable[..., Directory]
) -> None:
    """Another of its name knows no such group, as if that were dropped."""
    with broken_off_at("group.after_decision"):
        groups.set_paths(two["hq"], GROUP, groups.full_mesh)
    left = prepared(two)
    other = make_sites("hq")["hq"]
    with Directory({"hq": other.url, "lax": two["lax"].url}) as elsewhere:
        with pytest.raises(DecidedElsewhere, match=left[0]):
            finish(elsewhere["lax"])
        with pytest.raises(DecidedElsewhere):
            groups.leave_group(elsewhere["lax"], GROUP)
        assert [one.version for one in groups.list_groups(elsewhere["lax"])] == [3]
    assert prepared(two) == left
    finish(two["lax"])
    assert [one.version for one in groups.list_groups(two["lax"])] == [4]


def test_site_whose_deciding_database_is_lost_leaves(
    two: Directory, make_sites: Callable[..., Directory]
) -> None:
    with broken_off_at("group.after_decision"):
        groups.set_paths(two["hq"], GROUP, groups.full_mesh)
    other = make_sites("hq")["hq"]
    with Directory({"hq": other.url, "lax": two["lax"].url}) as elsewhere:
        groups.leave_group(elsewhere["lax"], GROUP, force=True)
    assert prepared(two) == []
    assert groups.list_groups(two["lax"]) == []


def test_a_lost_database_decides_on_no_other_group(
    make_sites: Callable[..., Directory],
) -> None:
    """What other definition sites have decided is ended as they say."""
    sites = make_sites("hq", "lax", "bos")
    lax, group = sites["lax"], found_group(sites, "hq", "lax")
    unknown = uuid.uuid4()
    for id_, home, home_id in (
        (group.id, "hq", None),
        (unknown, "bos", uuid.uuid4()),
    ):
        gid = Branch(group=id_, version=1, leaves=False, home=home, home_id=home_id).gid
        with lax.connect() as connection:
            branch = connection.begin_twophase(gid)
            connection.exec_driver_sql(f"CREATE TABLE public.of_{home} (id int)")
            branch.prepare()
            connection.invalidate()
    with pytest.raises(groups.StillMaster):
        groups.leave_group(lax, GROUP, force=True)
    assert run(lax, "SELECT to_regclass('of_hq')") == [("of_hq",)]
    [left] = prepared(sites)
    with pytest.raises(DecidedElsewhere, match=left):
        finish(lax)
    with pytest.raises(DecidedElsewhere, match=left):
        groups.leave_group(lax, str(unknown))
    with pytest.raises(groups.NoSuchGroup):
        groups.leave_group(lax, str(uuid.uuid4()), force=True)
    assert groups.leave_group(lax, str(unknown), force=True).given_up == {}
    assert prepared(sites) == []
    assert run(lax, "SELECT to_regclass('of_bos')") == [(None,)]


def prepared(sites: Directory) -> list[str]:
    """What is prepared at any of the sites."""
    asked = "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()"
    return [gid for site in sites.values() for (gid,) in run(site, asked)]
