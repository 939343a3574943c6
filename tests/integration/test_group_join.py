"""A master joins while the others work: its rows are copied, its queues begin there."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import deferred
import groups
from deferred.errors import DestinationDisabled
from groups import join
from groups.errors import BadPaths, NoSuchMaster, NotEmpty
from sites import Directory, faults
from sites.faults import InjectedFault
from tests.grouped import GROUP, assert_masters_equal, found_group, push_all
from tests.linked_table import ORDERS, run

TEN = "INSERT INTO orders (id, qty) SELECT n, 0 FROM generate_series(1, 10) n"


@pytest.fixture
def three(make_sites: Callable[..., Directory]) -> Directory:
    """Two masters with ten rows, one of them changed and not pushed; one to join."""
    sites = make_sites("hq", "lax", "bos")
    found_group(sites, "hq", "lax")
    run(sites["hq"], TEN)
    push_all(sites)
    run(sites["lax"], "UPDATE orders SET qty = 1 WHERE id = 1")
    run(sites["bos"], f"CREATE TABLE orders ({ORDERS})")
    return sites


def test_rows_are_copied_and_changes_since_follow(three: Directory) -> None:
    report = groups.join_master(three["hq"], GROUP, "bos", source="lax")
    assert (report.copied_from, report.rows) == ("lax", 10)
    run(three["hq"], "INSERT INTO orders (id, name) VALUES (20, 'hq')")
    run(three["lax"], "INSERT INTO orders (id, name) VALUES (30, 'lax')")
    run(three["bos"], "UPDATE orders SET qty = 5 WHERE id = 2")
    push_all(three)
    assert len(assert_masters_equal(three, "hq", "lax", "bos")) == 12


def test_users_write_while_rows_are_copied(
    three: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written between the moment of the copy and its end comes by push."""
    copied = join._copy

    def write_first(*arguments: Any) -> int:
        run(three["hq"], "UPDATE orders SET qty = qty + 10 WHERE id < 5")
        run(three["lax"], "DELETE FROM orders WHERE id = 10")
        with pytest.raises(psycopg.Error, match="bos is joining group"):
            run(three["bos"], "INSERT INTO orders (id) VALUES (99)")
        with pytest.raises(DestinationDisabled):
            deferred.push(three["lax"], "bos")
        return copied(*arguments)

    monkeypatch.setattr(join, "_copy", write_first)
    assert groups.join_master(three["hq"], GROUP, "bos", via="lax").rows == 10
    push_all(three)
    rows = assert_masters_equal(three, "hq", "lax", "bos")
    assert sorted(row[2] for row in rows) == [0, 0, 0, 0, 0, 10, 10, 10, 11]


@pytest.mark.parametrize(
    "point",
    [
        "group_join.after_begin",
        "group_join.before_commit",
        "group_join.after_copy",
        "group_join.after_copy,group_join.after_empty",
    ],
)
def test_interrupted_it_starts_over(
    three: Directory, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    faults._hits.clear()
    for one in point.split(","):
        monkeypatch.setenv("SNAPTIDE_FAULT", f"{one}:error")
        with pytest.raises(InjectedFault):
            groups.join_master(three["hq"], GROUP, "bos")
    monkeypatch.delenv("SNAPTIDE_FAULT")
    told = groups.show_group(three["hq"], GROUP).masters
    [problem] = [one.problem for one in told if one.problem]
    assert problem == "is joining: its rows are not there yet"
    run(three["hq"], "UPDATE orders SET qty = 7 WHERE id = 7")
    groups.join_master(three["hq"], GROUP, "bos")
    run(three["lax"], "UPDATE orders SET qty = 8 WHERE id = 8")
    push_all(three)
    rows = assert_masters_equal(three, "hq", "lax", "bos")
    assert {row[0]: row[2] for row in rows if row[2]} == {1: 1, 7: 7, 8: 8}


def test_master_joins_a_group_that_is_suspended(three: Directory) -> None:
    """Users are refused there as at the others, and the copy is not."""
    groups.suspend(three["hq"], GROUP)
    assert groups.join_master(three["hq"], GROUP, "bos").rows == 10
    with pytest.raises(psycopg.Error, match="is quiesced"):
        run(three["bos"], "INSERT INTO orders (id) VALUES (99)")
    groups.resume(three["hq"], GROUP)
    run(three["bos"], "INSERT INTO orders (id) VALUES (99)")
    push_all(three)
    assert_masters_equal(three, "hq", "lax", "bos")


def test_neighbour_of_a_new_master_has_to_be_one(three: Directory) -> None:
    with pytest.raises(NoSuchMaster, match="nosuch is no master"):
        groups.join_master(three["hq"], GROUP, "bos", via="nosuch")
    read_only = groups.TargetType.PROTECTED_READ_ONLY
    groups.remove_master(three["hq"], GROUP, "lax", force=True)
    groups.add_master(three["hq"], GROUP, "lax", target_type=read_only, same_rows=True)
    with pytest.raises(BadPaths, match="lax is read-only"):
        groups.join_master(three["hq"], GROUP, "bos", via="lax")
    assert groups.show_group(three["hq"], GROUP).version == 5


def test_removed_while_it_joins_it_leaves_no_pause(
    three: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults._hits.clear()
    monkeypatch.setenv("SNAPTIDE_FAULT", "group_join.after_begin:error")
    with pytest.raises(InjectedFault):
        groups.join_master(three["hq"], GROUP, "bos")
    monkeypatch.delenv("SNAPTIDE_FAULT")
    groups.remove_master(three["hq"], GROUP, "bos")
    paused = "SELECT name FROM snaptide.destination WHERE disabled"
    assert [run(three[name], paused) for name in ("hq", "lax")] == [[], []]


def test_master_with_rows_is_not_filled(three: Directory) -> None:
    run(three["bos"], "INSERT INTO orders (id) VALUES (1)")
    with pytest.raises(NotEmpty, match="orders at bos has rows"):
        groups.join_master(three["hq"], GROUP, "bos")
    assert groups.show_group(three["hq"], GROUP).version == 3
