"""Rectify makes masters of a group equal to the one that the operator names."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

import deferred
import groups
from deferred.errors import BadKey, BadOption
from deferred.options import ErrorAction
from deferred.parked.edit import Edit
from deferred.queues.queue import list_queues, undelivered_calls
from groups import GroupRectifyReport
from groups.errors import CannotReplicate, GroupBusy, NoSuchMaster
from groups.rectify import mend, send
from sites import Directory, Site
from sites.errors import SiteUnreachable
from sites.names import quoted
from tests.fix_worlds import prepared_once
from tests.grouped import (
    GROUP,
    assert_masters_equal,
    broken_off_at,
    found_group,
    push_all,
    without,
)
from tests.integration.test_group_check import check, found
from tests.linked_table import rows, run
from tests.stories import user
from tests.three_masters import ODD, make_masters, unseen

pytestmark = pytest.mark.usefixtures("spark")


@prepared_once("hq", "lax", "bos")
def sites(sites: Directory) -> None:
    make_masters(sites)


def rectify(site: Site, *tables: str, **options: Any) -> GroupRectifyReport:
    options.setdefault("reference", "hq")
    report: GroupRectifyReport = groups.rectify(site, GROUP, tables, **options)
    return report


def planned(report: GroupRectifyReport) -> Mapping[tuple[str, str], int]:
    """How many rows differ, by target and kind."""
    return {
        (one.target, count.kind.value): count.rows
        for one in report.tables
        for count in one.planned
    }


def spoil(sites: Directory) -> None:
    """Have lax and bos come apart from hq, each in its way."""
    unseen(
        sites["lax"],
        "UPDATE orders SET qty = 0 WHERE id IN (1, 2)",
        "DELETE FROM orders WHERE id = 3",
        "INSERT INTO orders (id, qty) VALUES (777, 1)",
    )
    unseen(sites["bos"], "UPDATE orders SET name = 'x' || id WHERE id IN (2, 4)")


def test_the_others_get_the_rows_of_the_reference(sites: Directory) -> None:
    before = rows(sites["hq"])
    spoil(sites)
    report = rectify(sites["bos"])
    assert planned(report) == {
        ("lax", "differs"): 2,
        ("lax", "missing"): 1,
        ("lax", "extra"): 1,
        ("bos", "differs"): 2,
    }
    assert (report.to_mend, report.mended) == (6, 6)
    assert (report.unexplained, report.waiting, report.unproven) == (0, 0, 0)
    assert sum(one.queued for one in report.tables) == 6
    assert assert_masters_equal(sites, "hq", "lax", "bos") == before
    assert check(sites["hq"]).equal
    again = rectify(sites["lax"])
    assert (again.to_mend, sum(one.queued for one in again.tables)) == (0, 0)


def test_only_the_target_gets_a_correction(sites: Directory) -> None:
    spoil(sites)
    rectify(sites["hq"], targets="lax")
    assert found(check(sites["hq"])) == {("differs", "unexplained"): 2}
    assert push_all(sites) == 0
    for name in ("hq", "bos"):
        with sites[name].transaction() as connection:
            assert not any(
                undelivered_calls(connection, queue)
                for queue in list_queues(connection)
            )


def test_a_plan_changes_nothing(sites: Directory) -> None:
    spoil(sites)
    before = [rows(site) for site in sites.values()]
    report = rectify(sites["hq"], "orders", targets=["lax"], dry_run=True)
    assert (report.to_mend, report.targets) == (4, ("lax",))
    [one] = report.tables
    told = {row.key["id"]: row for row in one.rows}
    assert (told["3"].target, told["777"].reference) == (None, None)
    assert (told["1"].reference, told["1"].target) == ({"qty": "1"}, {"qty": "0"})
    assert [rows(site) for site in sites.values()] == before
    assert found(check(sites["hq"])) == {
        ("differs", "unexplained"): 3,
        ("missing", "unexplained"): 2,
    }


def test_rows_that_only_one_has_may_stay(sites: Directory) -> None:
    spoil(sites)
    report = rectify(sites["hq"], targets="lax", extra="keep", missing="skip")
    assert (report.to_mend, report.mended) == (2, 2)
    assert planned(report)["lax", "extra"] == 1
    numbers = [row[0] for row in rows(sites["lax"])]
    assert 777 in numbers
    assert 3 not in numbers
    assert rectify(sites["hq"], "orders", only=[["3"]]).mended == 1
    assert rectify(sites["hq"], "orders", only=[{"id": "0777"}]).mended == 1
    assert check(sites["hq"]).unexplained == 2


def test_what_is_on_its_way_is_left(sites: Directory) -> None:
    run(sites["hq"], "UPDATE orders SET qty = 0 WHERE id = 1")
    unseen(sites["lax"], "UPDATE orders SET qty = 9 WHERE id IN (1, 2)")
    report = rectify(sites["hq"])
    assert (report.to_mend, report.mended) == (1, 1)
    assert {(c.reason.value, c.rows) for o in report.tables for c in o.left} == {
        ("in flight", 1)
    }
    # hq's own change meets what only lax has: that is for users to decide.
    assert len(deferred.list_errors(sites["lax"])) == 1


def test_values_that_are_hard_to_carry(sites: Directory) -> None:
    odd = quoted(ODD)
    unseen(
        sites["lax"],
        f"UPDATE {odd} SET n = 1.00 WHERE id = 1",
        f"UPDATE {odd} SET \"c'1\" = '\\x00ff' WHERE id = 2",
        f"DELETE FROM {odd} WHERE id = 3",
        # Unique values that change hands.
        "UPDATE orders SET name = 'n1' || 'x' WHERE id = 1",
        "UPDATE orders SET name = 'n1' WHERE id = 2",
        "UPDATE orders SET name = 'n2' WHERE id = 1",
    )
    report = rectify(sites["bos"])
    assert (report.to_mend, report.mended) == (5, 5), report
    assert check(sites["bos"]).equal


@pytest.mark.parametrize("how", ["deleted", "edited"])
def test_it_settles_what_was_decided_about_an_error(sites: Directory, how: str) -> None:
    run(sites["lax"], "UPDATE orders SET qty = 50 WHERE id = 1")
    run(sites["hq"], "UPDATE orders SET qty = 7 WHERE id = 1")
    deferred.push(sites["hq"], "bos")
    assert deferred.push(sites["hq"], "lax").errors == 1
    push_all(sites)
    for name in ("bos", "hq"):
        deferred.delete_errors(sites[name])
    [error] = deferred.list_errors(sites["lax"])
    assert rectify(sites["hq"]).to_mend == 0  # parked: it may still be applied
    if how == "deleted":
        deferred.delete_errors(sites["lax"])
    else:
        edits = [Edit(call="orders", column="qty", value="9")]
        [done] = deferred.retry_errors(sites["lax"], [error.id], edits=edits)
        assert done.applied, done.reason
        push_all(sites)
        for name in ("bos", "hq"):
            deferred.delete_errors(sites[name])
    report = rectify(sites["hq"])
    assert (report.to_mend, report.waiting) == (report.mended, 0)
    assert report.mended >= 1
    assert_masters_equal(sites, "hq", "lax", "bos")
    masters = groups.show_group(sites["hq"], GROUP).masters
    assert not any(one.different for one in masters)


def test_corrections_take_the_way_of_the_reference(
    make_sites: Callable[..., Directory],
) -> None:
    sites = make_sites("hq", "lax", "bos")
    found_group(sites, "hq", "lax", "bos", via={"lax": "hq", "bos": "lax"})
    run(
        sites["hq"],
        "INSERT INTO orders (id, qty) SELECT n, n FROM generate_series(1, 9) n",
    )
    push_all(sites)
    unseen(sites["lax"], "UPDATE orders SET qty = 0 WHERE id = 1")
    unseen(sites["bos"], "DELETE FROM orders WHERE id IN (1, 2)")
    report = rectify(sites["bos"])
    assert {one.target: one.sender for one in report.tables} == {
        "lax": "hq",
        "bos": "lax",
    }
    assert (report.to_mend, report.mended) == (3, 3)
    assert_masters_equal(sites, "hq", "lax", "bos")
    # The route stays when the group changes; other changes go as before.
    run(sites["bos"], "UPDATE orders SET qty = 5 WHERE id = 2")
    groups.suspend(sites["hq"], GROUP)
    with pytest.raises(CannotReplicate, match="quiesced"):
        rectify(sites["hq"])
    groups.resume(sites["hq"], GROUP)
    assert_masters_equal(sites, "hq", "lax", "bos")
    unseen(sites["hq"], "UPDATE orders SET qty = 0 WHERE id = 3")
    assert rectify(sites["hq"], reference="bos", targets="hq").mended == 1
    assert_masters_equal(sites, "hq", "lax", "bos")
    with without(sites, "lax") as left:
        report = rectify(left["hq"], dry_run=True)
        assert (report.targets, report.away) == ((), ("lax",))
        assert "come there from lax" in report.left_out["bos"]
        with pytest.raises(SiteUnreachable, match="come there from lax"):
            rectify(left["hq"], targets="bos")


def test_a_correction_on_its_way_keeps_paths_as_they_are(sites: Directory) -> None:
    unseen(sites["lax"], "DELETE FROM orders WHERE id = 1")
    with broken_off_at("group_rectify.after_part"):
        rectify(sites["hq"])
    assert found(check(sites["bos"])) == {("missing", "in flight"): 1}
    with pytest.raises(GroupBusy, match="1 call of orders waits at hq for lax"):
        groups.set_paths(sites["hq"], GROUP, partial(groups.star, hub="bos"))
    # A change of the group that lets calls wait.
    groups.set_error_action(sites["hq"], GROUP, ErrorAction.STOP)
    assert found(check(sites["bos"])) == {("missing", "in flight"): 1}
    assert rectify(sites["lax"]).to_mend == 0
    assert_masters_equal(sites, "hq", "lax", "bos")
    groups.set_paths(sites["hq"], GROUP, partial(groups.star, hub="bos"))
    unseen(sites["lax"], "DELETE FROM orders WHERE id = 1")
    report = rectify(sites["hq"], "orders", targets="lax")
    assert ([one.sender for one in report.tables], report.mended) == (["bos"], 1)
    assert_masters_equal(sites, "hq", "lax", "bos")


def test_a_change_at_the_target_is_a_conflict(
    sites: Directory,
) -> None:
    unseen(sites["lax"], "UPDATE orders SET qty = 0 WHERE id IN (1, 2)")
    with broken_off_at("group_rectify.after_part"):
        rectify(sites["hq"])
    run(sites["lax"], "UPDATE orders SET qty = 99 WHERE id = 1")
    report = rectify(sites["hq"])
    assert report.to_mend == 0
    [error] = deferred.list_errors(sites["lax"])
    assert (error.origin, error.origin_user) == ("hq", "rectify")
    assert rows(sites["lax"])[0][2] == 99


def test_what_cannot_be_mended_is_refused(sites: Directory) -> None:
    hq = sites["hq"]
    with pytest.raises(NoSuchMaster):
        rectify(hq, reference="nix")
    with pytest.raises(NoSuchMaster):
        rectify(hq, targets="nix")
    with pytest.raises(CannotReplicate, match="is the reference"):
        rectify(hq, targets="hq")
    with pytest.raises(CannotReplicate, match="not in sales"):
        rectify(hq, "nix")
    with pytest.raises(BadOption, match="delete, keep"):
        rectify(hq, extra="merge")
    with pytest.raises(BadOption, match="one table"):
        rectify(hq, only=[["1"]])
    for key in ({"nix": "1"}, ["1", "2"], ["x"]):
        with pytest.raises(BadKey):
            rectify(hq, "orders", only=[key])
    with without(sites, "bos") as left:
        with pytest.raises(SiteUnreachable, match="bos cannot be compared"):
            rectify(left["hq"], targets="bos")
        with pytest.raises(SiteUnreachable, match="bos cannot be compared"):
            rectify(left["hq"], reference="bos")
        assert rectify(left["hq"]).away == ("bos",)


def test_rows_that_a_user_of_the_reference_holds_are_left(sites: Directory) -> None:
    unseen(sites["lax"], "UPDATE orders SET qty = 0 WHERE id IN (1, 2)")
    with user(sites["hq"]) as session:
        session.execute("UPDATE public.orders SET qty = 50 WHERE id = 1")
        report = rectify(sites["hq"])
        assert (report.to_mend, report.mended, report.unexplained) == (2, 1, 1)
        session.rollback()
    assert rectify(sites["hq"]).mended == 1
    assert_masters_equal(sites, "hq", "lax", "bos")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE orders SET qty = 50 WHERE id = 1",
        "DELETE FROM orders WHERE id = 1",
        "INSERT INTO orders (id, qty) VALUES (777, 50)",
    ],
)
def test_rows_that_a_user_of_the_reference_changes_are_left(
    sites: Directory, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    unseen(
        sites["lax"],
        "UPDATE orders SET qty = 0 WHERE id = 1",
        "INSERT INTO orders (id, qty) VALUES (777, 0)",
    )
    lock = send.lock

    def later(*arguments: Any) -> Any:
        run(sites["hq"], statement)
        return lock(*arguments)

    monkeypatch.setattr(send, "lock", later)
    report = rectify(sites["hq"])
    assert (report.to_mend, report.mended) == (2, 1), report
    assert (report.waiting, report.unexplained) == (1, 0)


def test_two_at_once_take_turns(
    sites: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(sites)
    monkeypatch.setattr(mend, "PART", 2)
    with ThreadPoolExecutor(max_workers=2) as beside:
        both = [beside.submit(rectify, sites[name]) for name in ("hq", "lax")]
        reports = [one.result() for one in both]
    assert sum(o.queued for report in reports for o in report.tables) == 6
    assert all(report.mended == report.to_mend for report in reports)
    assert_masters_equal(sites, "hq", "lax", "bos")
