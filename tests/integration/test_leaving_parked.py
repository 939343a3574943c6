"""The policy park: rows leave at once; changes of them are withdrawn, never lost."""

from decimal import Decimal
from typing import Any

import pytest

import deferred
import snapshots
from deferred.batches.pusher import only_pusher
from deferred.error_catalog import WITHDRAWN
from deferred.errors import RetryFailed
from sites import Directory, Site
from snaptide import doctor
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.integration.test_leaving_kept import TABLES
from tests.linked_table import parked, queued, run
from tests.stories import (
    assert_equal_to_master,
    column_groups,
    refresh,
    settle,
    user,
)

pytestmark = pytest.mark.usefixtures("spark")


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, TABLES)
    log(hq, "p", "c")
    column_groups(hq, "c", {"v": "", "code": "", "p": ""})
    made: dict[str, Any] = {"master": "hq", "group": "g", "updatable": True}
    snapshots.create(jfk, "p", where="here", leaving="park", **made)
    snapshots.create(jfk, "c", follow=["p"], leaving="park", **made)
    snapshots.refresh(jfk, "g")


def withdrawn(site) -> list[Any]:
    found = deferred.list_errors(site)
    assert {one.reason for one in found} <= {WITHDRAWN}
    return [deferred.show_error(site, one.id) for one in found]


def test_a_change_of_a_row_that_leaves_is_withdrawn_and_put_back(hq, jfk):
    run(hq, "UPDATE public.p SET here = false WHERE id = 2")
    run(jfk, "UPDATE public.c SET v = 7.5 WHERE id = 2")
    done = refresh(jfk, "g")
    assert (done["c"].left, done["c"].withdrawn, done["c"].staying) == (1, 1, {})
    assert "1 transaction was withdrawn" in done["c"].moves
    assert run(jfk, "SELECT count(*) FROM public.p WHERE id = 2") == [(0,)]
    (one,) = withdrawn(jfk)
    assert (one.origin, one.error_code) == ("jfk", "SNP-247")
    (call,) = one.calls
    assert call.new is not None
    assert (call.table, call.kind, call.new["v"]) == ("c", "U", "7.50")
    assert any("withdrawn" in finding.what for finding in doctor.examine(jfk))
    settle(jfk)
    assert_equal_to_master(jfk)
    assert run(hq, "SELECT v FROM public.c WHERE id = 2") == [(2,)]
    (retried,) = deferred.retry_errors(jfk, [one.id])
    assert retried.applied
    assert deferred.list_errors(jfk) == []
    # The next refresh pushes it first.
    assert snapshots.describe_snapshot(jfk, "c").undelivered_calls == 1
    settle(jfk)
    assert run(hq, "SELECT v FROM public.c WHERE id = 2") == [(7.5,)]
    assert_equal_to_master(jfk)


def test_whole_transactions_and_those_that_follow_them(hq, jfk):
    run(hq, "UPDATE public.p SET here = false WHERE id = 2")
    with user(jfk) as one:
        one.execute("UPDATE public.c SET v = 0 WHERE id = 5")
        one.commit()
        one.execute("UPDATE public.c SET v = 1 WHERE id IN (2, 3)")
        one.execute("DELETE FROM public.c WHERE id = 4")
        one.commit()
        one.execute("UPDATE public.c SET id = 33 WHERE id = 3")
        one.commit()
        one.execute("UPDATE public.c SET v = 2 WHERE id = 33")
        one.execute("INSERT INTO public.c VALUES (50, 6, 'fifty', 50)")
        one.commit()
    assert refresh(jfk, "g")["c"].withdrawn == 3
    # Their other rows are the master's again; the transaction before waits.
    assert run(jfk, "SELECT id, v FROM public.c WHERE id IN (3, 4, 5, 33, 50)") == [
        (5, 0),
        (3, 3),
        (4, 4),
    ]
    first, second, _ = withdrawn(jfk)
    assert [call.kind for call in first.calls] == ["U", "U", "D"]
    assert [call.kind for call in second.calls] == ["M"]
    settle(jfk)
    assert_equal_to_master(jfk)
    run(hq, "UPDATE public.p SET here = true WHERE id = 2")
    assert all(one.applied for one in deferred.retry_errors(jfk))
    settle(jfk)
    rows = "SELECT id, v FROM public.c WHERE id IN (2, 3, 4, 5, 33, 50) ORDER BY 1"
    assert run(hq, rows) == [(2, 1), (5, 0), (33, 2), (50, 50)]
    assert_equal_to_master(jfk)


def test_transactions_that_need_what_was_withdrawn_go_with_it(hq, jfk):
    run(hq, "UPDATE public.p SET here = false WHERE id = 2")
    with user(jfk) as one:
        one.execute("UPDATE public.c SET v = 1 WHERE id = 2")
        one.execute("INSERT INTO public.p VALUES (20, true)")
        one.execute("DELETE FROM public.c WHERE id IN (4, 5)")
        one.commit()
        needing = (
            "INSERT INTO public.c VALUES (30, 20, 'its parent was inserted', 1)",
            "UPDATE public.c SET p = 20 WHERE id = 7",
            "DELETE FROM public.p WHERE id = 4",
            "INSERT INTO public.c VALUES (31, 6, 'code5', 1)",
            "UPDATE public.c SET v = 2 WHERE id = 31",
        )
        staying = (
            "INSERT INTO public.c VALUES (40, 6, 'a sibling', 1)",
            "UPDATE public.c SET v = 3 WHERE id = 6",
        )
        for statement in (*needing, *staying):
            one.execute(statement)
            one.commit()
    refresh(jfk, "g")
    assert len(withdrawn(jfk)) == 1 + len(needing)
    assert queued(jfk) == len(staying)
    settle(jfk)
    assert parked(hq) == []
    assert_equal_to_master(jfk)
    # In their order, when the row is here again.
    run(hq, "UPDATE public.p SET here = true WHERE id = 2")
    assert all(one.applied for one in deferred.retry_errors(jfk))
    settle(jfk)
    assert parked(hq) == []
    assert run(hq, "SELECT p FROM public.c WHERE id IN (7, 30)") == [(20,), (20,)]
    assert_equal_to_master(jfk)


def test_rows_that_users_added_below_leave_with_their_parent(hq, jfk):
    run(hq, "UPDATE public.p SET here = false WHERE id = 2")
    run(jfk, "INSERT INTO public.c VALUES (20, 2, 'new', 1)")
    done = refresh(jfk, "g")
    assert (done["c"].left, done["c"].withdrawn, done["p"].left) == (2, 1, 1)
    settle(jfk)
    assert_equal_to_master(jfk)
    (one,) = withdrawn(jfk)
    assert deferred.delete_errors(jfk, [one.id]) == 1
    settle(jfk)
    assert_equal_to_master(jfk)


def test_what_was_sent_or_is_being_sent_is_drained(hq, jfk):
    settle(jfk)
    run(hq, "UPDATE public.p SET here = false WHERE id = 2")
    run(jfk, "UPDATE public.c SET v = 7 WHERE id = 2")
    with jfk.session() as connection, only_pusher(connection, "hq") as alone:
        assert alone
        assert refresh(jfk, "g")["c"].staying == {"pending": 1}
    with jfk.begin() as connection:
        deferred.call(connection, "something", [1])
        connection.exec_driver_sql("UPDATE public.c SET v = 8 WHERE id = 2")
    done = refresh(jfk, "g")
    assert (done["c"].staying, done["c"].withdrawn) == ({"pending": 1}, 0)
    assert withdrawn(jfk) == []


def test_a_withdrawn_change_of_a_snapshot_that_is_gone(hq, jfk, snaptide):
    run(hq, "UPDATE public.p SET here = false WHERE id = 2")
    run(jfk, "UPDATE public.c SET v = 7 WHERE id = 2")
    done = snaptide.report("refresh", "jfk", "g", "--no-push", code=3)
    assert done["snapshots"][0]["withdrawn"] == 1
    snapshots.drop(jfk, "c")
    (one,) = withdrawn(jfk)
    (retried,) = deferred.retry_errors(jfk, [one.id])
    assert not retried.applied
    assert "Snapshot c is gone" in retried.reason
    assert len(withdrawn(jfk)) == 1


def withdraw_one(hq: Site, jfk: Site) -> int:
    """Have a change of the column v withdrawn; returns the number of the error."""
    run(hq, "UPDATE public.p SET here = false WHERE id = 2")
    run(jfk, "UPDATE public.c SET v = 7.25 WHERE id = 2")
    refresh(jfk, "g")
    (one,) = withdrawn(jfk)
    return int(one.id)


def make_anew(jfk: Site, columns: list[str] | None = None) -> None:
    """Drop the snapshot, and create it with all columns of the master, or with some."""
    snapshots.drop(jfk, "c")
    made: dict[str, Any] = {"master": "hq", "group": "g", "updatable": True}
    snapshots.create(jfk, "c", follow=["p"], leaving="park", columns=columns, **made)


def refusal(jfk: Site, number: int) -> str:
    """Why a transaction is not put back; it stands where it stood."""
    (retried,) = deferred.retry_errors(jfk, [number])
    assert not retried.applied
    assert [one.id for one in withdrawn(jfk)] == [number]
    assert queued(jfk) == 0
    return retried.reason


def test_a_withdrawn_change_of_a_snapshot_that_was_made_anew(hq, jfk):
    number = withdraw_one(hq, jfk)
    make_anew(jfk)
    assert "Snapshot c is gone, read-only, or not loaded" in refusal(jfk, number)
    refresh(jfk, "g")
    (retried,) = deferred.retry_errors(jfk, [number])
    assert retried.applied
    settle(jfk)
    assert run(hq, "SELECT p, code, v FROM public.c WHERE id = 2") == [
        (2, "code2", Decimal("7.25"))
    ]
    assert_equal_to_master(jfk)


def test_a_snapshot_of_another_table_that_has_the_name_now(hq, jfk):
    """Its rows have the same columns, and even the same keys."""
    number = withdraw_one(hq, jfk)
    snapshots.drop(jfk, "c")
    run(
        hq,
        "CREATE SCHEMA past",
        "CREATE TABLE past.c (LIKE public.c INCLUDING ALL)",
        "INSERT INTO past.c TABLE public.c",
    )
    log(hq, "past.c")
    snapshots.create(jfk, "c", table="past.c", master="hq", updatable=True)
    refresh(jfk, "c")
    assert "is of past.c at hq now, not of c at hq" in refusal(jfk, number)


def test_a_snapshot_of_another_master_that_has_the_name_now(hq, jfk, make_sites):
    """Its tables are the same, with the same rows."""
    number = withdraw_one(hq, jfk)
    for name in ("c", "p"):
        snapshots.drop(jfk, name)
    other = make_sites("hq")["hq"]
    run(other, TABLES)
    log(other, "p", "c")
    with Directory({"hq": other.url, "jfk": jfk.url}) as elsewhere:
        there = elsewhere["jfk"]
        snapshots.create(there, "c", master="hq", updatable=True)
        refresh(there, "c")
    assert "is of another database now, which has the name hq" in refusal(jfk, number)


@pytest.mark.parametrize(
    ("ddl", "columns", "why"),
    [
        ("", ["id", "p", "code"], "has no column v any more"),
        ("RENAME v TO w", None, "has no column v any more"),
        ("ADD w int", None, "had no column w when the transaction was withdrawn"),
        ("ALTER v TYPE numeric(9, 1)", None, "has v as numeric(9,1) now, not numeric"),
    ],
)
def test_a_snapshot_that_was_made_anew_with_other_columns(hq, jfk, ddl, columns, why):
    number = withdraw_one(hq, jfk)
    if ddl:
        run(hq, f"ALTER TABLE public.c {ddl}")
    make_anew(jfk, columns)
    refresh(jfk, "g")
    assert why in refusal(jfk, number)


def test_columns_that_have_exchanged_their_names(hq, jfk):
    """In place: the snapshot was never dropped."""
    run(hq, "ALTER TABLE public.c ADD w numeric(9, 2)")
    make_anew(jfk)
    refresh(jfk, "g")
    number = withdraw_one(hq, jfk)
    for step in ("v TO x", "w TO v", "x TO w"):
        run(hq, f"ALTER TABLE public.c RENAME {step}")
    refresh(jfk, "g")
    assert "shows another column of the master as v now" in refusal(jfk, number)


def test_a_transaction_goes_back_with_all_its_tables_or_with_none(hq, jfk):
    """Also for a caller who goes on in the transaction in which it was refused."""
    run(hq, "UPDATE public.p SET here = false WHERE id = 2")
    with user(jfk) as one:
        one.execute("UPDATE public.c SET v = 7 WHERE id = 2")
        one.execute("INSERT INTO public.p VALUES (30, true)")
        one.commit()
    refresh(jfk, "g")
    (number,) = (one.id for one in withdrawn(jfk))
    for name in ("c", "p"):
        snapshots.drop(jfk, name)
    snapshots.create(jfk, "c", master="hq", updatable=True)
    refresh(jfk, "c")
    gone = pytest.raises(RetryFailed, match="Snapshot p is gone")
    with jfk.begin() as connection, gone:
        deferred.retry(connection, jfk, number)
    assert queued(jfk) == 0
