"""A check of a group finds what was planted at masters, and explains the rest."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import deferred
import groups
from deferred.parked import parked_rows
from deferred.parked.edit import Edit
from deferred.parked.parked_rows import ParkedRow
from groups import CheckKind, CheckReason, GroupCheckReport
from groups.errors import CannotReplicate, NoSuchGroup
from sites import Directory, Site
from sites.names import quoted
from snapshots.check.errors import CheckRefused
from snapshots.differences import comparison
from tests.fix_worlds import prepared_once
from tests.grouped import GROUP, found_group, push_all, push_among, without
from tests.linked_table import run
from tests.three_masters import KEY, ODD, make_masters, unseen

pytestmark = pytest.mark.usefixtures("spark")


@prepared_once("hq", "lax", "bos")
def sites(sites: Directory) -> None:
    make_masters(sites)


def found(report: GroupCheckReport) -> dict[tuple[str, str], int]:
    """How many rows differ, by kind and reason."""
    return {
        (count.kind.value, count.reason.value): count.rows
        for one in report.tables
        for count in one.counts
    }


def check(site: Site, *tables: str, **options: Any) -> GroupCheckReport:
    report: GroupCheckReport = groups.check(site, GROUP, tables, **options)
    return report


def test_equal_masters_are_equal(sites: Directory) -> None:
    report = check(sites["bos"])
    assert report.equal
    assert report.masters == ("bos", "hq", "lax")
    assert [dict(one.rows) for one in report.tables] == [
        {"bos": rows, "hq": rows, "lax": rows} for rows in (100, 3)
    ]
    assert not report.left_out
    # What is not known of a master that is away is not taken for equal.
    with without(sites, "lax") as left:
        report = check(left["bos"])
        assert all(one.equal for one in report.tables)
        assert not report.equal
        with without(left, "hq") as alone:
            assert not check(alone["bos"]).equal


CORRUPTIONS = [
    ("DELETE FROM orders WHERE id = 7", CheckKind.MISSING, ()),
    ("INSERT INTO orders (id) VALUES (777)", CheckKind.MISSING, ()),
    ("UPDATE orders SET qty = NULL WHERE id = 7", CheckKind.DIFFERS, ("qty",)),
    (
        "UPDATE orders SET name = 'x', price = 7.01 WHERE id = 7",
        CheckKind.DIFFERS,
        ("name", "price"),
    ),
]


@pytest.mark.parametrize(("statement", "kind", "columns"), CORRUPTIONS)
def test_what_was_planted_at_a_master_is_found(
    sites: Directory, statement: str, kind: CheckKind, columns: tuple[str, ...]
) -> None:
    unseen(sites["lax"], statement)
    report = check(sites["hq"])
    assert found(report) == {(kind.value, "unexplained"): 1}
    [row] = report.tables[0].differences
    assert row.columns == columns
    assert row.masters["hq"] == row.masters["bos"] != row.masters["lax"]
    assert report.unexplained == 1


def test_all_images_are_shown_and_none_is_assumed_to_be_right(sites: Directory) -> None:
    unseen(sites["lax"], "UPDATE orders SET qty = 50 WHERE id = 7")
    unseen(sites["bos"], "UPDATE orders SET qty = 51 WHERE id = 7")
    unseen(sites["bos"], "DELETE FROM orders WHERE id = 8")
    one, other = check(sites["hq"], "orders").tables[0].differences
    if one.key != {"id": "7"}:
        one, other = other, one
    assert dict(one.masters) == {"bos": "A", "hq": "B", "lax": "C"}
    assert {k: dict(v) for k, v in one.images.items()} == {
        "A": {"qty": "51"},
        "B": {"qty": "7"},
        "C": {"qty": "50"},
    }
    assert dict(other.masters) == {"bos": None, "hq": "A", "lax": "A"}
    assert other.images["A"]["name"] == "n8"


def test_hostile_names_and_columns_in_another_order(sites: Directory) -> None:
    unseen(sites["bos"], f"UPDATE {quoted(ODD)} SET n = 1.00 WHERE id = 1")
    unseen(sites["lax"], f"UPDATE {quoted(ODD)} SET \"c'1\" = '' WHERE id = 2")
    unseen(sites["lax"], f"DELETE FROM {quoted(ODD)} WHERE id = 3")
    run(sites["hq"], f"UPDATE {quoted(ODD)} SET n = 8 WHERE id = 3")
    [table] = check(sites["hq"], quoted(ODD)).tables
    told = {one.key["id"]: one for one in table.differences}
    assert {k: (v.reason, v.columns) for k, v in told.items()} == {
        "1": (CheckReason.UNEXPLAINED, ("n",)),
        "2": (CheckReason.UNEXPLAINED, ("c'1",)),
        "3": (CheckReason.IN_FLIGHT, ("n",)),
    }
    assert told["1"].key == {KEY: "a'\"b", "id": "1"}


def test_changes_on_their_way_explain(sites: Directory) -> None:
    hq, lax, bos = (sites[name] for name in ("hq", "lax", "bos"))
    run(hq, "UPDATE orders SET qty = 0 WHERE id = 1")
    run(
        lax,
        "DELETE FROM orders WHERE id = 2",
        "UPDATE orders SET id = 300 WHERE id = 3",
    )
    report = check(hq)
    assert found(report) == {("differs", "in flight"): 1, ("missing", "in flight"): 3}
    deferred.push(hq, "lax")
    deferred.push(lax, "hq")
    report = check(bos)
    assert found(report) == {("differs", "in flight"): 1, ("missing", "in flight"): 3}
    row = next(one for one in report.tables[0].differences if one.key["id"] == "1")
    assert row.detail == "at hq, not yet at bos"
    assert row.transaction is not None
    assert row.transaction.endswith(" of hq")
    # A change that all masters have explains nothing any more.
    push_all(sites)
    unseen(bos, "UPDATE orders SET qty = 1 WHERE id = 1")
    assert found(check(bos)) == {("differs", "unexplained"): 1}


def test_a_change_that_is_only_sent_on_explains(
    make_sites: Callable[..., Directory],
) -> None:
    sites = make_sites("hq", "lax", "bos")
    found_group(sites, "hq", "lax", "bos", via={"lax": "hq", "bos": "hq"})
    run(sites["lax"], "INSERT INTO orders (id) VALUES (1)")
    for waits in ("at lax, not yet at hq", "at hq, not yet at bos"):
        [row] = check(sites["bos"]).tables[0].differences
        assert (row.reason, row.detail) == (CheckReason.IN_FLIGHT, waits)
        assert (row.transaction or "").endswith(" of lax")
        push_among(sites, "lax", "hq")
    push_all(sites)
    assert check(sites["lax"]).equal
    unseen(sites["bos"], "DELETE FROM orders")
    assert found(check(sites["lax"])) == {("missing", "unexplained"): 1}


def conflict(sites: Directory) -> int:
    """Have a change of hq's parked at lax; its number there."""
    run(sites["lax"], "UPDATE orders SET qty = 50 WHERE id = 1")
    run(sites["hq"], "UPDATE orders SET qty = 7 WHERE id = 1")
    deferred.push(sites["hq"], "bos")
    assert deferred.push(sites["hq"], "lax").errors == 1
    push_all(sites)
    return deferred.list_errors(sites["lax"])[0].id


def test_parked_changes_explain(sites: Directory) -> None:
    error = conflict(sites)
    [row] = check(sites["bos"]).tables[0].differences
    assert row.reason is CheckReason.PARKED
    assert row.detail == f"error {error} at lax"


def test_no_other_rows_of_the_error_queue_are_read(
    sites: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(sites["lax"], "UPDATE orders SET qty = 50 WHERE id <= 40")
    run(sites["hq"], "UPDATE orders SET qty = 7 WHERE id <= 40")
    deferred.push(sites["hq"], "lax")
    push_all(sites)
    read: set[tuple[str | None, ...]] = set()
    of_table = parked_rows.of_table

    def noted(*given: Any, **options: Any) -> Iterator[ParkedRow]:
        for row in of_table(*given, **options):
            read.add(row.key)
            yield row

    monkeypatch.setattr(parked_rows, "of_table", noted)
    report = check(sites["hq"], "orders", where="id BETWEEN 31 AND 40")
    assert found(report) == {("differs", "parked"): 10}
    assert read == {(str(number),) for number in range(31, 41)}


@pytest.mark.parametrize("how", ["deleted", "edited"])
def test_decisions_about_errors_explain(sites: Directory, how: str) -> None:
    error = conflict(sites)
    for master in ("bos", "hq"):
        deferred.delete_errors(sites[master])
    if how == "deleted":
        deferred.delete_errors(sites["lax"])
    else:
        edits = [Edit(call="orders", column="qty", value="9")]
        [report] = deferred.retry_errors(sites["lax"], [error], edits=edits)
        assert report.applied, report.reason
        push_all(sites)
    [row] = check(sites["bos"]).tables[0].differences
    assert row.reason is CheckReason.DECIDED
    assert row.detail is not None
    assert how in row.detail
    unseen(sites["bos"], "UPDATE orders SET qty = 1 WHERE id = 2")
    assert check(sites["bos"]).unexplained == 1


def test_a_master_that_is_away_is_left_out(sites: Directory) -> None:
    unseen(sites["lax"], "DELETE FROM orders WHERE id = 7")
    with without(sites, "bos") as left:
        report = check(left["hq"])
        assert report.away == ("bos",)
        assert report.masters == ("hq", "lax")
        assert found(report) == {("missing", "unexplained"): 1}
        run(sites["hq"], "DELETE FROM orders WHERE id = 8")
        assert found(check(left["lax"])) == {
            ("missing", "unexplained"): 1,
            ("missing", "in flight"): 1,
        }


def test_what_only_one_master_got_from_one_that_is_away(sites: Directory) -> None:
    run(sites["bos"], "DELETE FROM orders WHERE id = 7")
    deferred.push(sites["bos"], "hq")
    assert found(check(sites["hq"])) == {("missing", "in flight"): 1}
    with without(sites, "bos") as left:
        report = check(left["hq"])
        assert found(report) == {("missing", "cannot be told"): 1}
        [row] = report.tables[0].differences
        assert row.detail is not None
        assert row.detail.startswith("bos is away, and has brought 1 transaction to hq")
    deferred.push(sites["bos"], "lax")
    unseen(sites["lax"], "DELETE FROM orders WHERE id = 8")
    with without(sites, "bos") as left:
        assert found(check(left["hq"])) == {("missing", "unexplained"): 1}


def test_what_goes_over_a_master_that_is_away(
    make_sites: Callable[..., Directory],
) -> None:
    sites = make_sites("hq", "lax", "bos")
    found_group(sites, "hq", "lax", "bos", via={"lax": "hq", "bos": "lax"})
    run(sites["hq"], "INSERT INTO orders (id) VALUES (1)")
    deferred.push(sites["hq"], "lax")
    with without(sites, "lax") as left:
        report = check(left["hq"])
        assert found(report) == {("missing", "cannot be told"): 1}
        [row] = report.tables[0].differences
        assert row.detail == "lax, which sends its changes on, is away"


def test_some_rows_and_some_columns(sites: Directory) -> None:
    unseen(sites["lax"], "UPDATE orders SET qty = 0 WHERE id IN (7, 70)")
    assert found(check(sites["hq"], "orders", where="qty > 50")) == {
        ("differs", "unexplained"): 1
    }
    assert check(sites["hq"], "orders", columns=["name"]).equal
    report = check(sites["hq"], most=1)
    assert len(report.tables[0].differences) == 1
    assert report.unexplained == 2
    with pytest.raises(CheckRefused, match="no column nix"):
        check(sites["hq"], "orders", columns=["nix"])
    with pytest.raises(CannotReplicate, match="not in sales"):
        check(sites["hq"], "nix")
    with pytest.raises(NoSuchGroup):
        groups.check(sites["hq"], "nix")


def test_executors_compare_what_is_large(
    sites: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "most_rows", lambda *_: 0)
    unseen(sites["lax"], "UPDATE orders SET qty = 0 WHERE id > 50")
    run(sites["hq"], "DELETE FROM orders WHERE id = 1")
    assert found(check(sites["hq"])) == {
        ("differs", "unexplained"): 50,
        ("missing", "in flight"): 1,
    }


def test_calls_of_procedures_on_their_way_prove_nothing(sites: Directory) -> None:
    for site in sites.values():
        run(
            site,
            "CREATE PROCEDURE raise(n int) LANGUAGE sql AS"
            " $$ UPDATE orders SET qty = qty + n $$",
        )
        deferred.allow_procedure(site, "raise")
    run(
        sites["hq"],
        "SELECT snaptide.defer_call('public.raise', ARRAY['lax', 'bos'],"
        " jsonb_build_array(snaptide.argument(1)), false)",
    )
    unseen(sites["bos"], "DELETE FROM orders WHERE id = 7")
    report = check(sites["hq"])
    assert found(report) == {("missing", "cannot be told"): 1}
    [row] = report.tables[0].differences
    assert row.detail is not None
    assert row.detail.startswith("hq has called public.raise, which has not run at")
