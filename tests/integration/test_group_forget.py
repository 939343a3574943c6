"""A master is gone for good: the others go on, and it does not come back unasked."""

from collections.abc import Callable

import pytest

import deferred
import groups
from deferred.errors import NoMasterAnyMore
from deferred.pushing.push import destinations
from groups.errors import CannotReplicate, GroupBusy, MasterAnswers
from sites import Directory, faults
from sites.faults import InjectedFault
from tests.grouped import (
    GROUP,
    assert_masters_equal,
    found_group,
    push_all,
    push_among,
    without,
)
from tests.linked_table import rows, run


def test_others_go_on_and_it_has_to_join_again(
    make_sites: Callable[..., Directory], monkeypatch: pytest.MonkeyPatch
) -> None:
    sites = make_sites("hq", "lax", "bos")
    found_group(sites, "hq", "lax", "bos")
    run(sites["bos"], "INSERT INTO orders (id) VALUES (1)")
    run(sites["hq"], "INSERT INTO orders (id) VALUES (2)")
    with pytest.raises(MasterAnswers, match="bos answers"):
        groups.forget_master(sites["hq"], GROUP, "bos")
    with without(sites, "bos") as left:
        # Cut off between the change and the rest, it is said again.
        faults._hits.clear()
        monkeypatch.setenv("SNAPTIDE_FAULT", "group_forget.after_change:error")
        with pytest.raises(InjectedFault):
            groups.forget_master(left["hq"], GROUP, "bos")
        monkeypatch.delenv("SNAPTIDE_FAULT")
        group = groups.forget_master(left["hq"], GROUP, "bos")
        assert group.names == ("hq", "lax")
        assert [destinations(left[name]) for name in group.names] == [["lax"], ["hq"]]
        run(left["lax"], "INSERT INTO orders (id) VALUES (3)")
        push_among(left, *group.names)
    assert len(assert_masters_equal(sites, "hq", "lax")) == 2
    # It is back, and thinks that it is a master still.
    with pytest.raises(NoMasterAnyMore, match="bos is no master of group sales"):
        deferred.push(sites["bos"], "hq")
    assert [row[0] for row in rows(sites["hq"])] == [2, 3]
    run(sites["bos"], "DELETE FROM orders")
    groups.join_master(sites["hq"], GROUP, "bos")
    run(sites["bos"], "INSERT INTO orders (id) VALUES (4)")
    push_all(sites)
    assert len(assert_masters_equal(sites, "hq", "lax", "bos")) == 3


def test_what_it_sent_comes_to_all_before_it_is_forgotten(
    make_sites: Callable[..., Directory],
) -> None:
    sites = make_sites("hq", "lax", "bos")
    found_group(sites, "hq", "lax", "bos", via={"lax": "hq", "bos": "hq"})
    run(sites["bos"], "INSERT INTO orders (id) VALUES (1)")
    deferred.push(sites["bos"], "hq")
    with without(sites, "bos") as left:
        with pytest.raises(GroupBusy, match="wait at hq for lax"):
            groups.forget_master(left["hq"], GROUP, "bos")
        push_among(left, "hq", "lax")
        groups.forget_master(left["hq"], GROUP, "bos")
        assert len(assert_masters_equal(left, "hq", "lax")) == 1
    with pytest.raises(CannotReplicate, match="hq is the master definition site"):
        groups.forget_master(sites["hq"], GROUP, "hq")
