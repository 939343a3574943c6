"""What waits at a site arrives although the master's columns are others by now."""

from collections.abc import Sequence
from typing import Any

import pytest

import deferred
import snapshots
from deferred.errors import GivesGoneColumn
from sites import Directory, Site
from snapshots.definitions.errors import CallsUseColumn
from snaptide import migrate
from tests import airport
from tests.airport import SWAP
from tests.fix_commands import Snaptide
from tests.fix_moments import Moments
from tests.fix_worlds import prepared_once
from tests.grouped import broken_off_at
from tests.linked_table import parked, queued, run
from tests.stories import assert_equal_to_master, settle

pytestmark = pytest.mark.usefixtures("spark")

DROP = "ALTER TABLE public.orders DROP last"
BACK = "ALTER TABLE public.orders ADD last text"


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    """An updatable snapshot, and one to read."""
    airport.found(sites["hq"], sites["jfk"])


def at(hq: Site, columns: str, *ids: int) -> Sequence[Any]:
    wanted = ", ".join(map(str, ids))
    statement = f"SELECT {columns} FROM public.orders WHERE id IN ({wanted})"
    return run(hq, f"{statement} ORDER BY id")


def follow(jfk: Site, **wanted: Any) -> None:
    for name in ("orders", "seen"):
        snapshots.alter_columns(jfk, name, **wanted)
    settle(jfk)
    assert_equal_to_master(jfk)


@pytest.mark.parametrize(
    "options",
    [{}, {"group_max_calls": 1}, {"parallelism": 2, "group_max_calls": 2}],
    ids=["together", "one by one", "side by side"],
)
def test_changes_that_leave_a_dropped_column_alone_arrive(
    hq: Site, jfk: Site, options: dict[str, Any]
) -> None:
    run(jfk, "UPDATE public.orders SET qty = 50 WHERE id = 1")
    run(jfk, "INSERT INTO public.orders (id, airport, qty) VALUES (20, 'JFK', 3)")
    run(jfk, "UPDATE public.orders SET id = 22 WHERE id = 2")
    run(jfk, "DELETE FROM public.orders WHERE id = 4")
    run(
        jfk,
        "UPDATE public.orders SET last = 'there' WHERE id = 5",
        "UPDATE public.orders SET last = 'l5', first = 'back' WHERE id = 5",
    )
    run(hq, DROP)
    report = deferred.push(jfk, **options)
    assert (report.transactions, report.errors) == (5, 0)
    assert at(hq, "id, first, qty", 1, 2, 4, 5, 20, 22) == [
        (1, "f1", 50),
        (5, "back", 5),
        (20, None, 3),
        (22, "f2", 2),
    ]
    follow(jfk, drop=["last"])


def test_a_value_of_a_dropped_column_is_parked_with_its_transaction(
    hq: Site, jfk: Site
) -> None:
    """The other changes of the transaction wait with it; others do not."""
    run(
        jfk,
        "UPDATE public.orders SET last = 'mine' WHERE id = 1",
        "UPDATE public.orders SET qty = 50 WHERE id = 2",
        "DELETE FROM public.orders WHERE id = 7",
    )
    run(jfk, "UPDATE public.orders SET qty = 50 WHERE id = 4")
    run(jfk, "INSERT INTO public.orders VALUES (20, 'JFK', 'f', 'given', 1)")
    run(jfk, "UPDATE public.orders SET qty = 51 WHERE id = 20")
    run(hq, DROP)
    report = deferred.push(jfk)
    assert (report.transactions, report.errors) == (4, 3)
    assert at(hq, "id, qty", 1, 2, 4, 7, 20) == [(1, 1), (2, 2), (4, 50), (7, 7)]
    first, second, third = deferred.list_errors(hq)
    assert [one.reason for one in (first, second)] == ["column gone"] * 2
    assert {one[2] for one in parked(hq)[:2]} == {GivesGoneColumn.code}
    assert third.waits_for == (second.id,)
    assert "gives it 'mine'. Retry without it" in first.error_message
    calls = deferred.show_error(hq, first.id).calls
    gone = "last (gone)"
    changed = {(one.old or {})["id"]: one for one in calls}
    assert (changed["1"].old or {})[gone] == "l1"
    assert (changed["1"].new or {})[gone] == "mine"
    assert changed["1"].conflict == "column gone: last"
    assert changed["2"].conflict is None
    assert (changed["7"].old or {})[gone] == "l7"

    # By itself, a retry neither drops the value nor finds it another place.
    reports = deferred.retry_errors(hq)
    assert not any(one.applied for one in reports)
    assert "is gone, and call" in reports[0].reason
    reports = deferred.retry_errors(
        hq, [first.id, second.id], with_dependants=True, without_gone=True
    )
    assert all(one.applied for one in reports)
    assert at(hq, "id, qty", 1, 2, 7, 20) == [(1, 1), (2, 50), (20, 51)]
    follow(jfk, drop=["last"])


@pytest.mark.parametrize("what", ["number", "reason", "edit"])
def test_a_value_goes_to_a_column_that_was_added_again_if_it_is_told_to(
    hq: Site, jfk: Site, what: str
) -> None:
    run(jfk, "UPDATE public.orders SET last = 'mine', qty = 50 WHERE id = 1")
    run(
        jfk,
        "UPDATE public.orders SET last = 'two' WHERE id = 2",
        "UPDATE public.orders SET qty = 50 WHERE id = 4",
        "INSERT INTO public.orders VALUES (20, 'JFK', 'f', 'given', 1)",
    )
    run(hq, DROP, BACK, "UPDATE public.orders SET last = 'theirs' WHERE id = 4")
    assert deferred.push(jfk).errors == 2
    assert at(hq, "last", 1, 2) == [(None,), (None,)]
    (report, _) = deferred.retry_errors(hq)
    assert "retry by number to give it that" in report.reason
    first, second = (one.id for one in deferred.list_errors(hq))
    if what == "reason":
        reports = deferred.retry_errors(hq, reason="column gone")
    elif what == "number":
        reports = deferred.retry_errors(hq, [first, second])
    else:
        edits = [deferred.Edit.parse("orders.last=ours")]
        reports = deferred.retry_errors(hq, [first], edits=edits)
        reports += deferred.retry_errors(hq, [second])
    assert [one.reason for one in reports] == ["", ""]
    assert at(hq, "id, last, qty", 1, 2, 4, 20) == [
        (1, "ours" if what == "edit" else "mine", 50),
        (2, "two", 2),
        (4, "theirs", 50),
        (20, "given", 1),
    ]
    settle(jfk)
    assert_equal_to_master(jfk)


def test_a_column_that_has_the_name_gets_nothing_of_another_one(
    hq: Site, jfk: Site
) -> None:
    """The queue knows columns by number, whatever took their names."""
    run(jfk, "UPDATE public.orders SET first = 'mine' WHERE id = 1")
    run(jfk, "UPDATE public.orders SET last = 'lost' WHERE id = 2")
    run(jfk, "INSERT INTO public.orders (id, airport, first) VALUES (20, 'JFK', 'f')")
    run(hq, DROP, "ALTER TABLE public.orders RENAME first TO last")
    run(hq, "ALTER TABLE public.orders ADD first text DEFAULT 'new'")
    assert deferred.push(jfk).errors == 1
    assert at(hq, "id, last, first", 1, 2, 20) == [
        (1, "mine", "new"),
        (2, "f2", "new"),
        (20, "f", "new"),
    ]
    (error,) = deferred.list_errors(hq)
    (call,) = deferred.show_error(hq, error.id).calls
    values = call.new or {}
    assert (values["last"], values["last_ (gone)"]) == ("f2", "lost")
    (report,) = deferred.retry_errors(hq, [error.id])
    assert "Column last_ of orders is gone" in report.reason
    (report,) = deferred.retry_errors(hq, [error.id], without_gone=True)
    assert report.applied
    assert at(hq, "last", 2) == [("f2",)]


@pytest.mark.parametrize("how", ["renamed", "swapped"])
def test_a_queue_goes_to_renamed_columns_before_the_site_knows_of_them(
    hq: Site, jfk: Site, how: str
) -> None:
    run(jfk, "UPDATE public.orders SET first = 'mine' WHERE id = 1")
    run(jfk, "INSERT INTO public.orders VALUES (20, 'JFK', 'f20', 'l20', 1)")
    run(hq, *(SWAP if how == "swapped" else [RENAME]))
    assert deferred.push(jfk).errors == 0
    run(jfk, "UPDATE public.orders SET first = 'also' WHERE id = 20")
    run(hq, "UPDATE public.orders SET qty = 90 WHERE id = 1")
    assert deferred.push(jfk).errors == 0
    now, other = ("last", "first") if how == "swapped" else ("given", "last")
    assert at(hq, f"{now}, {other}", 1, 20) == [("mine", "l1"), ("also", "l20")]
    if how == "swapped":
        follow(jfk, rename={"first": "last", "last": "first"})
    else:
        follow(jfk, rename={"first": "given"})


RENAME = "ALTER TABLE public.orders RENAME first TO given"


def test_conflicts_are_found_under_the_name_of_now(hq: Site, jfk: Site) -> None:
    run(jfk, "UPDATE public.orders SET first = 'mine', qty = 9 WHERE id = 1")
    run(hq, RENAME, DROP, "UPDATE public.orders SET given = 'theirs' WHERE id = 1")
    assert deferred.push(jfk).errors == 1
    (error,) = deferred.list_errors(hq)
    assert error.reason == "conflict"
    (call,) = deferred.show_error(hq, error.id).calls
    assert list(call.new or {}) == ["id", "airport", "given", "qty"]
    assert at(hq, "given", 1) == [("theirs",)]


def test_a_value_that_does_not_fit_is_kept_beside_one_without_a_place(
    hq: Site, jfk: Site
) -> None:
    run(jfk, "UPDATE public.orders SET last = 'mine', qty = 70000 WHERE id = 1")
    run(hq, DROP, "ALTER TABLE public.orders ALTER qty TYPE smallint")
    assert deferred.push(jfk).errors == 1
    (error,) = deferred.list_errors(hq)
    assert error.reason == "column gone"
    (call,) = deferred.show_error(hq, error.id).calls
    assert ((call.new or {})["qty"], (call.new or {})["last (gone)"]) == (
        "70000",
        "mine",
    )


def test_a_push_that_stops_at_errors_keeps_the_value_at_the_site(
    hq: Site, jfk: Site
) -> None:
    run(jfk, "UPDATE public.orders SET last = 'mine' WHERE id = 1")
    run(hq, DROP)
    with pytest.raises(deferred.TransactionRefused, match="is gone"):
        deferred.push(jfk, error_action="stop")
    assert (queued(jfk), deferred.list_errors(hq)) == (1, [])


def test_a_master_of_an_older_version_parks_it_as_an_error(hq: Site, jfk: Site) -> None:
    run(jfk, "UPDATE public.orders SET last = 'mine' WHERE id = 1")
    run(hq, DROP)
    migrate.downgrade(hq, "0072")
    deferred.push(jfk)
    migrate.upgrade(hq)
    (error,) = deferred.list_errors(hq)
    assert (error.reason, parked(hq)[0][2]) == ("error", GivesGoneColumn.code)


def test_values_for_which_no_place_is_known_stay_at_the_site(
    hq: Site, jfk: Site
) -> None:
    """Another table has the name: no number says which column a value is for."""
    run(jfk, "UPDATE public.orders SET last = 'mine' WHERE id = 1")
    run(
        hq,
        "CREATE TABLE public.again AS SELECT id, airport, first, qty FROM orders",
        "DROP TABLE public.orders",
        "ALTER TABLE public.again ADD PRIMARY KEY (id)",
        "ALTER TABLE public.again RENAME TO orders",
    )
    with pytest.raises(CallsUseColumn, match="made anew"):
        snapshots.alter_columns(jfk, "orders", drop=["last"])
    assert queued(jfk) == 1


@pytest.mark.parametrize("point", ["push.after_ship", "push.before_apply"])
def test_a_column_that_is_dropped_during_a_push(
    hq: Site, jfk: Site, moments: Moments, point: str
) -> None:
    run(jfk, "UPDATE public.orders SET last = 'mine' WHERE id = 1")
    moments.at(point, lambda: run(hq, DROP))
    assert deferred.push(jfk).errors == 1
    assert point in moments.reached
    assert [one.reason for one in deferred.list_errors(hq)] == ["column gone"]


def test_another_column_is_dropped_while_a_value_is_parked(
    hq: Site, jfk: Site, moments: Moments
) -> None:
    """What does not fit is parked with the columns that the table has by then."""
    run(hq, DROP)
    run(jfk, "UPDATE public.orders SET last = 'mine' WHERE id = 1")
    run(jfk, "UPDATE public.orders SET first = 'mine, too' WHERE id = 4")
    drop = "ALTER TABLE public.orders DROP first"
    moments.at("push.before_apply", lambda: run(hq, drop))
    assert deferred.push(jfk).errors == 2
    assert "push.before_apply" in moments.reached
    assert [one.reason for one in deferred.list_errors(hq)] == ["column gone"] * 2


@pytest.mark.faults
@pytest.mark.parametrize(
    "point", ["push.after_ship", "push.before_commit", "push.after_commit"]
)
def test_a_push_that_breaks_off_parks_each_value_once(
    hq: Site, jfk: Site, point: str
) -> None:
    run(jfk, "UPDATE public.orders SET qty = 50 WHERE id = 4")
    run(jfk, "UPDATE public.orders SET last = 'mine' WHERE id = 1")
    run(jfk, "UPDATE public.orders SET last = 'two' WHERE id = 2")
    run(hq, DROP)
    with broken_off_at(point):
        deferred.push(jfk)
    deferred.push(jfk)
    errors = deferred.list_errors(hq)
    assert [one.reason for one in errors] == ["column gone"] * 2
    assert at(hq, "qty", 4) == [(50,)]
    for one in errors:
        (call,) = deferred.show_error(hq, one.id).calls
        assert (call.new or {})["last (gone)"] in ("mine", "two")


def test_a_site_that_drops_the_column_afterwards_parks_what_waits_first(
    hq: Site, jfk: Site, snaptide: Snaptide
) -> None:
    run(jfk, "UPDATE public.orders SET last = 'mine' WHERE id = 1")
    run(hq, DROP)
    follow(jfk, drop=["last"])
    assert queued(jfk) == 0
    chosen = ("hq", "--reason", "column gone")
    assert len(snaptide.report("errors", "list", *chosen, code=3)) == 1
    snaptide.said("errors", "retry", *chosen, "--without-gone")
    assert deferred.list_errors(hq) == []
