"""A site's queue keeps a call until it is delivered, covered and past retention."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import count

import pytest

import deferred
from deferred.errors import PositionMismatch, QueueNotEmpty
from deferred.queues import define, queue, refresh_coverage
from sites import Directory, Site
from tests.fix_worlds import prepared_once
from tests.linked_table import as_refresh, link, queued, run
from tests.sent import noted

NOW = timedelta(0)
LONG = timedelta(days=1000)
COUNT = 'SELECT count(*) FROM snaptide."def$_orders"'


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    """A site with two delivered transactions, one of two calls on one row."""
    link(sites)
    run(sites["jfk"], "INSERT INTO orders (id) VALUES (1), (2)")
    run(
        sites["jfk"],
        "UPDATE orders SET qty = 1 WHERE id = 1",
        "UPDATE orders SET qty = 2 WHERE id = 1",
    )
    deferred.push(sites["jfk"])


def cover(site: Site, batch: int, order: int) -> None:
    """Note, as a refresh does, that the answer up to a marker is seen."""
    with site.transaction() as connection:
        refresh_coverage.cover(connection, ["orders"], batch, order)


def test_covered_calls_go_after_retention(jfk: Site) -> None:
    cover(jfk, *_marker(jfk))
    report = deferred.purge(jfk, retention=LONG, fold_after=LONG)
    assert (report.transactions, report.calls) == (0, 0)
    report = deferred.purge(jfk, retention=NOW, fold_after=LONG)
    assert (report.transactions, report.calls, report.folded) == (2, 4, 0)
    assert run(jfk, COUNT) == [(0,)]
    for table in ("deferred_transaction", "delivery"):
        assert run(jfk, f"SELECT count(*) FROM snaptide.{table}") == [(0,)]


def test_batches_go_with_their_transactions(jfk: Site) -> None:
    """The newest stays: its destination may still be asked about it."""
    before = "SELECT count(*) FROM snaptide.batch"
    run(jfk, "UPDATE orders SET qty = 3 WHERE id = 1")
    deferred.push(jfk)
    assert run(jfk, before) == [(2,)]
    cover(jfk, *_marker(jfk))
    deferred.purge(jfk, retention=NOW, fold_after=LONG)
    newest = (
        "SELECT number = batch_no, answered = batch_end"
        " FROM snaptide.batch JOIN snaptide.destination ON destination = name"
    )
    assert run(jfk, newest) == [(True, True)]


def test_uncovered_calls_stay(jfk: Site) -> None:
    report = deferred.purge(jfk, retention=NOW, fold_after=LONG)
    assert (report.transactions, report.calls) == (0, 0)
    assert run(jfk, COUNT) == [(4,)]


def test_calls_are_covered_up_to_a_transaction_of_the_batch(jfk: Site) -> None:
    batch, order = run(
        jfk, "SELECT batch, order_no FROM snaptide.delivery ORDER BY order_no"
    )[0]
    cover(jfk, batch, order)
    report = deferred.purge(jfk, retention=NOW, fold_after=LONG)
    assert (report.transactions, report.calls) == (1, 2)


def test_calls_that_no_refresh_covers_are_folded_into_keys(jfk: Site) -> None:
    report = deferred.purge(jfk, retention=LONG, fold_after=NOW)
    assert (report.calls, report.folded) == (4, 4)
    assert run(jfk, COUNT) == [(0,)]
    found = run(
        jfk,
        "SELECT DISTINCT e.k1, e.reason, e.batch_no, e.order_no = d.order_no"
        ' FROM snaptide."extra$_orders" e JOIN snaptide.delivery d'
        " ON d.batch = e.batch_no AND d.order_no = e.order_no ORDER BY 1",
    )
    assert found == [(1, "folded", 1, True), (2, "folded", 1, True)]


def test_calls_that_grow_old_during_a_purge_keep_their_keys(jfk: Site) -> None:
    """What is kept as keys and what is removed are the same calls."""
    run(jfk, "UPDATE snaptide.batch SET answered_at = clock_timestamp() + '1 s'")
    until = "SELECT pg_sleep_until(max(answered_at)) FROM snaptide.batch"
    with _before_calls_go(jfk, 1, until):
        deferred.purge(jfk, retention=LONG, fold_after=NOW)
    ((left,),) = run(jfk, COUNT)
    keys = {k for (k,) in run(jfk, 'SELECT k1 FROM snaptide."extra$_orders"')}
    assert (left, keys) in [(4, set()), (0, {1, 2})]


def test_calls_that_a_refresh_covers_during_a_purge_are_noted(jfk: Site) -> None:
    """A master that is restored to before them has to be told that they are gone."""
    batch, order = _marker(jfk)
    covered = f"UPDATE snaptide.queue SET covered_batch={batch}, covered_order={order}"
    with _before_calls_go(jfk, 2, covered):
        deferred.purge(jfk, retention=NOW, fold_after=LONG)
    place = "SELECT purged_batch, purged_order FROM snaptide.destination"
    gone = (batch, order) if run(jfk, COUNT) == [(0,)] else (0, 0)
    assert run(jfk, place) == [gone]


def test_transaction_of_a_queue_made_during_a_purge_stays(
    jfk: Site, sites: Directory
) -> None:
    """The purge has listed the queues by then, and does not look into this one."""
    made = count()

    def other(asked: str) -> None:
        if "DELETE FROM snaptide.deferred_transaction" in asked and not next(made):
            link(sites, "guests", "id int PRIMARY KEY")
            run(jfk, "INSERT INTO guests VALUES (1)")

    with noted(jfk, other):
        deferred.purge(jfk)
    assert deferred.push(jfk).transactions == 1
    assert run(sites["hq"], "SELECT id FROM guests") == [(1,)]


def test_covered_calls_are_not_folded(jfk: Site) -> None:
    cover(jfk, *_marker(jfk))
    report = deferred.purge(jfk, retention=LONG, fold_after=NOW)
    assert (report.calls, report.folded) == (0, 0)


def test_calls_on_their_way_stay_whatever_is_covered(jfk: Site) -> None:
    """They may mean a row that a delivered call made: so it stays, too."""
    run(jfk, "UPDATE orders SET qty = 3")
    cover(jfk, 99, 0)
    deferred.purge(jfk, retention=NOW, fold_after=NOW)
    assert queued(jfk) == 1
    assert run(jfk, COUNT) == [(6,)]
    assert deferred.push(jfk).transactions == 1
    cover(jfk, *_marker(jfk))
    deferred.purge(jfk, retention=NOW, fold_after=NOW)
    assert run(jfk, COUNT) == [(0,)]


def test_calls_made_after_the_last_refresh_keep_nothing(jfk: Site) -> None:
    cover(jfk, *_marker(jfk))
    run(jfk, "UPDATE orders SET qty = 3")
    deferred.purge(jfk, retention=NOW, fold_after=NOW)
    assert run(jfk, COUNT) == [(2,)]


def test_pending_keys_are_those_a_marker_does_not_cover(jfk: Site) -> None:
    batch, order = _marker(jfk)
    assert _pending(jfk, batch, order) == set()
    assert _pending(jfk, batch, order - 1) == {1}
    assert _pending(jfk, 0, 0) == {1, 2}
    run(jfk, "DELETE FROM orders WHERE id = 2")
    assert _pending(jfk, batch, order) == {2}


def test_purged_batch_that_is_asked_for_again_stops_the_push(
    jfk: Site, sites: Directory
) -> None:
    """The master was restored to before it: what is gone cannot be sent again."""
    cover(jfk, *_marker(jfk))
    deferred.purge(jfk, retention=NOW, fold_after=NOW)
    run(sites["hq"], "DELETE FROM snaptide.push_marker")
    with pytest.raises(PositionMismatch):
        deferred.push(jfk)


def test_calls_within_retention_are_pushed_to_a_restored_master(
    jfk: Site, sites: Directory
) -> None:
    cover(jfk, *_marker(jfk))
    deferred.purge(jfk)
    as_refresh(sites["hq"], "DELETE FROM orders", "DELETE FROM snaptide.push_marker")
    assert deferred.push(jfk).transactions == 2
    assert run(sites["hq"], "SELECT id, qty FROM orders ORDER BY id") == [
        (1, 2),
        (2, None),
    ]


def test_queue_with_calls_on_their_way_is_not_dropped(jfk: Site) -> None:
    run(jfk, "UPDATE orders SET qty = 3 WHERE id = 1")
    with jfk.transaction() as connection, pytest.raises(QueueNotEmpty, match="1 call "):
        define.drop_queue(connection, "orders")
    with jfk.transaction() as connection:
        define.drop_queue(connection, "orders", force=True)
    run(jfk, "UPDATE orders SET qty = 4")
    assert run(jfk, "SELECT count(*) FROM snaptide.defcall") == [(0,)]
    assert queued(jfk) == 0


@contextmanager
def _before_calls_go(site: Site, time: int, statement: str) -> Iterator[None]:
    """Have another session run a statement before a purge removes calls.

    Parameters:
        time: 1 is before those whose keys are kept, 2 before those that are covered.
    """
    times = count(1)

    def other(asked: str) -> None:
        if "DELETE FROM snaptide.def$_orders" in asked and next(times) == time:
            run(site, statement)

    with noted(site, other):
        yield
    assert next(times) > time


def _marker(site: Site) -> tuple[int, int]:
    [(batch, order)] = run(
        site, "SELECT max(batch), max(order_no) FROM snaptide.delivery"
    )
    return batch, order


def _pending(site: Site, batch: int, order: int) -> set[int]:
    with site.transaction() as connection:
        found = queue.find_queue(connection, "orders")
        assert found is not None
        keys = refresh_coverage.pending_keys(found, batch, order)
        return set(connection.scalars(keys))
