"""A change goes by the paths of its group, and by no other way."""

from collections.abc import Callable
from functools import partial

import pytest

import deferred
import groups
from groups import Path, define_paths
from groups.errors import BadPaths, GroupBusy
from sites import Directory
from tests.grouped import (
    GROUP,
    arrived,
    assert_masters_equal,
    found_group,
    group_id,
    push_all,
)
from tests.linked_table import queued, run

FOUR = ("a", "b", "c", "d")


@pytest.fixture
def four(make_sites: Callable[..., Directory]) -> Directory:
    """Four sites, masters of nothing yet."""
    return make_sites(*FOUR)


def write_everywhere(sites: Directory) -> None:
    """A row of its own from each master, changed by its neighbour."""
    for n, name in enumerate(FOUR):
        run(sites[name], f"INSERT INTO orders (id, qty) VALUES ({n}, 0)")
    push_all(sites)
    for n, name in enumerate(FOUR):
        run(sites[name], f"UPDATE orders SET qty = qty + 1 WHERE id = {(n + 1) % 4}")


@pytest.mark.parametrize(
    ("shape", "sent"),
    [
        (groups.full_mesh, 12),
        (partial(groups.star, hub="b"), 12),
        (groups.chain, 12),
        (partial(groups.tree, edges=[("a", "b"), ("b", "c"), ("b", "d")]), 12),
    ],
    ids=["mesh", "star", "chain", "tree"],
)
def test_each_change_reaches_each_master_once(
    four: Directory, shape: define_paths.Shape, sent: int
) -> None:
    found_group(four, *FOUR)
    groups.set_paths(four["a"], GROUP, shape)
    write_everywhere(four)
    assert push_all(four) == sent
    assert len(assert_masters_equal(four, *FOUR)) == 4
    assert [queued(four[name]) for name in FOUR] == [0, 0, 0, 0]
    for name in FOUR:
        paths = groups.show_group(four["a"], GROUP).paths
        brought = {p.source: (p.local, 2) for p in paths if p.target == name}
        assert arrived(four[name]) == brought
        assert {*brought, name} == set(FOUR)


def test_chain_sends_on_what_it_was_sent(four: Directory) -> None:
    found_group(four, "a", "b", "c", via={"c": "b"})
    run(four["a"], "INSERT INTO orders (id) VALUES (1)")
    [made] = run(
        four["a"], "SELECT xid::text, start_time FROM snaptide.deferred_transaction"
    )
    push_all(four)
    assert run(
        four["b"],
        "SELECT origin, origin_transaction, made_at, sources"
        " FROM snaptide.deferred_transaction",
    ) == [("a", *made, {str(group_id(four["b"])): "a"})]
    assert_masters_equal(four, "a", "b", "c")


def test_a_master_does_not_leave_while_others_send_on_its_changes(
    four: Directory,
) -> None:
    found_group(four, "a", "b", "c", via={"c": "b"})
    run(four["c"], "INSERT INTO orders (id) VALUES (1)")
    deferred.push(four["c"], "b")
    with pytest.raises(GroupBusy, match="waits at b for a"):
        groups.remove_master(four["a"], GROUP, "c")
    push_all(four)
    groups.remove_master(four["a"], GROUP, "c")
    assert len(assert_masters_equal(four, "a", "b")) == 1


def test_paths_wait_until_nothing_is_on_its_way(four: Directory) -> None:
    found_group(four, "a", "b", "c")
    run(four["a"], "INSERT INTO orders (id) VALUES (1)")
    with pytest.raises(GroupBusy, match="waits at a for b"):
        groups.set_paths(four["a"], GROUP, groups.chain)
    push_all(four)
    groups.set_paths(four["a"], GROUP, groups.chain)
    with pytest.raises(BadPaths, match=r"reach c twice.*\n└─> b\n    └─> c|twice"):
        groups.set_paths(
            four["a"],
            GROUP,
            lambda names: [
                *groups.full_mesh(names),
                Path(source="a", local="b", target="c"),
            ],
        )
    assert groups.show_group(four["a"], GROUP).paths == tuple(
        sorted(groups.chain(["a", "b", "c"]), key=lambda p: (p.source, p.target))
    )


def test_master_in_the_middle_leaves(four: Directory) -> None:
    found_group(four, *FOUR)
    groups.set_paths(four["a"], GROUP, groups.chain)
    write_everywhere(four)
    push_all(four)
    groups.remove_master(four["a"], GROUP, "c")
    run(four["a"], "UPDATE orders SET qty = 50")
    push_all(four)
    run(four["d"], "UPDATE orders SET qty = qty + 1")
    push_all(four)
    assert {row[2] for row in assert_masters_equal(four, "a", "b", "d")} == {51}


def test_change_goes_no_other_way_where_its_bringers_own_go_on(four: Directory) -> None:
    """Those of d come to c by a, and stay; those of a come by b, and go on to d."""
    found_group(four, *FOUR)
    ways = ["aab", "abc", "acd", "bba", "bbc", "bbd", "cca", "ccb", "ccd"]
    paths = [
        Path(source=way[0], local=way[1], target=way[2])
        for way in (*ways, "dda", "dac", "ddb")
    ]
    groups.set_paths(four["a"], GROUP, lambda _: paths)
    for n in range(2):  # pushed as one change
        run(four["d"], f"INSERT INTO orders (id, qty) VALUES ({n}, 0)")
    push_all(four)
    assert len(assert_masters_equal(four, *FOUR)) == 2
    assert arrived(four["c"]) == {"d": ("a", 2)}
    run(four["a"], "UPDATE orders SET qty = 1")
    push_all(four)
    assert {row[2] for row in assert_masters_equal(four, *FOUR)} == {1}
