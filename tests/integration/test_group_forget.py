"""A master is gone for good: the others go on, and it does not come back unasked."""

from collections.abc import Callable

import pytest

import deferred
import groups
from deferred.errors import NoMasterAnyMore
from deferred.pushing.push import destinations
from groups.errors import CannotReplicate, GroupBusy, MasterAnswers, StillMaster
from groups.everywhere import Branch
from groups.relay import duplicate_watch, former_senders
from groups.relay.duplicate_watch import DuplicateWatch
from sites import Directory, Site
from sites.capture.position import STRETCH
from sites.errors import SiteUnreachable
from tests.fix_commands import Snaptide
from tests.fix_worker import WriteSettings
from tests.grouped import (
    GROUP,
    assert_masters_equal,
    broken_off_at,
    found_group,
    group_id,
    push_all,
    push_among,
    without,
)
from tests.linked_table import rows, run, run_each


def test_others_go_on_and_it_has_to_join_again(
    make_sites: Callable[..., Directory],
) -> None:
    sites = make_sites("hq", "lax", "bos")
    found_group(sites, "hq", "lax", "bos")
    run(sites["bos"], "INSERT INTO orders (id) VALUES (1)")
    run(sites["hq"], "INSERT INTO orders (id) VALUES (2)")
    with pytest.raises(MasterAnswers, match="bos still answers"):
        groups.forget_master(sites["hq"], GROUP, "bos")
    with without(sites, "bos") as left:
        # Cut off between the change and the rest, it is said again.
        with broken_off_at("group_forget.after_change"):
            groups.forget_master(left["hq"], GROUP, "bos")
        group = groups.forget_master(left["hq"], GROUP, "bos")
        assert group.names == ("hq", "lax")
        assert [destinations(left[name]) for name in group.names] == [["lax"], ["hq"]]
        run(left["lax"], "INSERT INTO orders (id) VALUES (3)")
        push_among(left, *group.names)
    assert len(assert_masters_equal(sites, "hq", "lax")) == 2
    # It is back, and thinks that it is a master still.
    with pytest.raises(
        NoMasterAnyMore, match="bos is no longer a master of group sales"
    ):
        deferred.push(sites["bos"], "hq")
    assert [row[0] for row in rows(sites["hq"])] == [2, 3]
    run(sites["bos"], "DELETE FROM orders")
    groups.join_master(sites["hq"], GROUP, "bos")
    run(sites["bos"], "INSERT INTO orders (id) VALUES (4)")
    push_all(sites)
    assert len(assert_masters_equal(sites, "hq", "lax", "bos")) == 3


def test_it_leaves_and_what_it_pushes_of_other_groups_goes_on(
    make_sites: Callable[..., Directory], write_settings: WriteSettings
) -> None:
    sites = make_sites("hq", "lax", "bos")
    found_group(sites, "hq", "lax", "bos")
    for name in ("hq", "bos"):
        run(sites[name], "CREATE TABLE notes (id int PRIMARY KEY)")
    groups.create_group(sites["hq"], "memos")
    groups.add_table(sites["hq"], "memos", "notes")
    groups.add_master(sites["hq"], "memos", "bos")
    run_each(sites["hq"], "INSERT INTO orders (id) VALUES (9)", "DELETE FROM orders")
    push_all(sites)
    run(sites["bos"], "INSERT INTO orders (id) VALUES (1), (2)")
    with pytest.raises(StillMaster, match="bos is still a master of group sales"):
        groups.leave_group(sites["bos"], GROUP)
    with pytest.raises(CannotReplicate, match="hq is the master definition site"):
        groups.leave_group(sites["hq"], GROUP)
    with without(sites, "bos") as left:
        groups.forget_master(left["hq"], GROUP, "bos")
    run(sites["bos"], "INSERT INTO notes VALUES (7)")
    with pytest.raises(NoMasterAnyMore):
        deferred.push(sites["bos"], "hq")
    with without(sites, "hq") as left, pytest.raises(SiteUnreachable):
        groups.leave_group(left["bos"], GROUP)
    _remember_others(sites["bos"])
    snaptide = Snaptide(write_settings(sites))
    left = snaptide.report("group", "leave", "bos", GROUP)
    assert left["given_up"] == {"hq": 2, "lax": 2}
    assert _remembered(sites["bos"]) == [0, 0, 0, 0]
    deferred.push(sites["bos"], "hq")
    assert run(sites["hq"], "SELECT id FROM notes") == [(7,)]
    assert (rows(sites["hq"]), len(rows(sites["bos"]))) == ([], 2)
    run(sites["bos"], "DELETE FROM orders")
    groups.add_master(sites["hq"], GROUP, "bos")
    run(sites["bos"], "INSERT INTO orders (id) VALUES (3)")
    push_all(sites)
    assert len(assert_masters_equal(sites, "hq", "lax", "bos")) == 1


def _remember_others(site: Site) -> None:
    """As after a switch of jfk, whose changes hq brings, and a master that is gone."""
    watch = DuplicateWatch(
        group_id=group_id(site),
        origin="hq",
        first_no=0,
        end_no=STRETCH,
        alone=True,
        whole=True,
    )
    with site.session() as connection:
        duplicate_watch.watch_for(connection, [watch])
    with site.transaction() as connection:
        former_senders.forbid(connection, watch.group_id, "rio")
    assert all(_remembered(site))


def _remembered(site: Site) -> list[int]:
    """Second ways, taken transactions, former senders, and markers that are watched."""
    counted = (
        "second_way",
        "taken_transaction",
        "former_sender",
        "push_marker WHERE watched > 0",
    )
    return [run(site, f"SELECT count(*) FROM snaptide.{one}")[0][0] for one in counted]


def test_it_leaves_where_nobody_can_be_asked(
    make_sites: Callable[..., Directory],
) -> None:
    sites = make_sites("hq", "bos")
    group = found_group(sites, "hq", "bos")
    gid = Branch(group=group.id, version=9, leaves=False, home="hq", home_id=None).gid
    with sites["bos"].connect() as connection:
        branch = connection.begin_twophase(gid)
        connection.exec_driver_sql("CREATE TABLE public.gates (id int)")
        branch.prepare()
        connection.invalidate()
    prepared = f"SELECT gid FROM pg_prepared_xacts WHERE gid = '{gid}'"
    assert run(sites["bos"], prepared) == [(gid,)]
    with without(sites, "hq") as left:
        report = groups.leave_group(left["bos"], GROUP, force=True)
    assert run(sites["bos"], prepared) == []
    assert (report.given_up, groups.list_groups(sites["bos"])) == ({"hq": 0}, [])
    assert run(sites["bos"], "SELECT to_regclass('gates')") == [(None,)]


def test_what_it_sent_comes_to_all_before_it_is_forgotten(
    make_sites: Callable[..., Directory],
) -> None:
    sites = make_sites("hq", "lax", "bos")
    found_group(sites, "hq", "lax", "bos", via={"lax": "hq", "bos": "hq"})
    run(sites["bos"], "INSERT INTO orders (id) VALUES (1)")
    deferred.push(sites["bos"], "hq")
    with without(sites, "bos") as left:
        with pytest.raises(GroupBusy, match="waits at hq for lax"):
            groups.forget_master(left["hq"], GROUP, "bos")
        push_among(left, "hq", "lax")
        groups.forget_master(left["hq"], GROUP, "bos")
        assert len(assert_masters_equal(left, "hq", "lax")) == 1
    with pytest.raises(CannotReplicate, match="hq is the master definition site"):
        groups.forget_master(sites["hq"], GROUP, "hq")
