"""Reports tell rows that leave a snapshot from rows that the master deleted."""

import pytest

import snapshots
from sites import Directory
from snapshots import Cause
from snapshots.differences import comparison
from snapshots.errors import MassDelete, MassLeave
from snapshots.reports import RefreshReport, SnapshotReport, reasons
from snapshots.tasks import _counts, _in_words
from tests.fix_worlds import prepared_once
from tests.integration.test_followed_parents import make_shop
from tests.linked_table import run
from tests.stories import assert_equal_to_master, refresh, settle, user

pytestmark = pytest.mark.usefixtures("spark")


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    make_shop(sites)


def test_children_leave_because_their_parent_moved_and_some_stay(hq, jfk):
    run(
        hq,
        "UPDATE public.customer SET store_id = 2 WHERE id = 1",
        "DELETE FROM public.payment WHERE rental_id = 3",
    )
    run(jfk, "UPDATE public.payment SET amount = 0 WHERE id = 8")
    done = refresh(jfk, "shop")
    assert run(jfk, "SELECT id FROM public.customer WHERE id = 1") == [(1,)]
    customer, rentals, payment = (done[n] for n in ("customer", "rental", "payment"))
    assert (customer.left, customer.staying) == (0, {"with children in rental": 1})
    assert (rentals.left, rentals.deleted) == (3, 3)
    assert rentals.because == (Cause(table="customer", key="1", rows=4),)
    assert rentals.staying == {"with children in payment": 1}
    assert rentals.moves == (
        "3 rows left because customer 1 changed; 1 stays: 1 with children in payment"
    )
    # Three more were deleted at the master.
    assert (payment.deleted, payment.left, payment.staying) == (14, 11, {"pending": 1})
    assert {one.key for one in payment.because} == {"9", "18", "27", "36"}
    settle(jfk)
    assert_equal_to_master(jfk)
    assert refresh(jfk, "shop")["rental"].moves == ""


def test_a_locked_row_and_one_that_changed_itself(hq, jfk):
    run(hq, "UPDATE public.rental SET customer_id = 2 WHERE customer_id = 1")
    run(hq, "DELETE FROM public.payment WHERE rental_id = 36")
    with user(jfk) as someone:
        someone.execute("SELECT FROM public.rental WHERE id = 9 FOR UPDATE")
        rental = refresh(jfk, "shop", allow_mass_delete=True)["rental"]
    assert (rental.left, rental.because, rental.staying) == (3, (), {"locked": 1})
    assert rental.moves == "3 rows left; 1 stays: 1 locked"


def test_rows_leave_in_a_complete_refresh_and_on_executors(hq, jfk, monkeypatch):
    run(hq, "UPDATE public.customer SET store_id = 2 WHERE id = 1")
    run(hq, "DELETE FROM public.payment WHERE rental_id = 3")
    monkeypatch.setattr(comparison, "SMALL_WINDOW", 2)
    monkeypatch.setattr(comparison, "ALWAYS_FEW", 1)
    monkeypatch.setattr("snapshots.keys.ALWAYS_FEW", 1)
    done = refresh(jfk, "shop", allow_mass_delete=True)
    payment = done["payment"]
    assert (payment.method, payment.deleted, payment.left) == ("fast", 15, 12)
    assert done["rental"].because == (Cause(table="customer", key="1", rows=4),)
    run(hq, "UPDATE public.customer SET store_id = 2 WHERE id = 4")
    done = refresh(jfk, "shop", method="ccc", allow_mass_delete=True)
    assert (done["rental"].method, done["rental"].left) == ("complete", 4)


def test_masses_that_leave_are_told_apart(hq, jfk):
    snapshots.create(jfk, "big", master="hq", table="payment", where="amount > 0")
    run(
        hq,
        "INSERT INTO public.payment SELECT g, 2, 1 FROM generate_series(1000, 1999) g",
    )
    snapshots.refresh(jfk, "big")
    run(hq, "UPDATE public.payment SET amount = -1 WHERE id BETWEEN 1000 AND 1499")
    with pytest.raises(MassLeave) as stopped:
        snapshots.refresh(jfk, "big")
    assert "500 of 1,108 rows of big would leave it." in str(stopped.value)
    assert (stopped.value.deletes, stopped.value.leaving) == (0, 500)  # type: ignore[attr-defined]
    run(hq, "DELETE FROM public.payment WHERE id >= 1300")
    with pytest.raises(MassDelete) as both:
        snapshots.refresh(jfk, "big")
    assert type(both.value) is MassDelete
    assert "would delete 700 of 1,108 rows of big, and 300 rows would leave" in str(
        both.value
    )


def test_the_breaker_names_the_parent(hq, jfk):
    run(
        hq,
        "INSERT INTO public.rental SELECT g, 1, 'k' FROM generate_series(1000, 1999) g",
    )
    snapshots.refresh(jfk, "shop")
    run(hq, "UPDATE public.customer SET store_id = 2 WHERE id = 1")
    with pytest.raises(MassLeave, match="would leave it because customer 1 changed"):
        snapshots.refresh(jfk, "shop")


def test_the_command_line_says_it(hq, snaptide):
    run(hq, "UPDATE public.customer SET store_id = 2 WHERE id = 1")
    report = snaptide.report("refresh", "jfk", "shop", "--no-push")
    found = {one["name"]: one for one in report["snapshots"]}
    assert found["rental"]["left"] == 4
    assert found["rental"]["because"] == [{"table": "customer", "key": "1", "rows": 4}]
    run(hq, "UPDATE public.customer SET store_id = 2 WHERE id = 4")
    said = snaptide.said("refresh", "jfk", "shop", "--no-push")
    assert "rental: 4 rows left because customer 4 changed" in said
    shown = snaptide.report("snapshot", "show", "jfk", "rental")
    assert shown["leaving"] == "drain"


def test_reasons_are_sentences():
    many = [Cause(table="a", key=k, rows=1) for k in ("1", "2")]
    many += [Cause(table="a", key=None, rows=7), Cause(table="b", key="x", rows=1)]
    assert reasons(many) == " because a 1, 2 and others and b x changed"
    assert SnapshotReport(name="t", method="fast").moves == ""


def test_a_worker_says_it_in_its_log():
    one = SnapshotReport(
        name="t",
        method="fast",
        deleted=5,
        left=4,
        withdrawn=1,
        staying={"pending": 2},
        held_back=2,
    )
    report = RefreshReport(
        site="jfk", group="g", snapshots=(one,), position="1:1:", seconds=1, pushed=None
    )
    assert _in_words(_counts(report), report.seconds) == (
        "0 inserted, 0 updated, 5 deleted (4 of them left), 2 are to leave, "
        "1 withdrawn, 2 held back in 1.0 s."
    )
