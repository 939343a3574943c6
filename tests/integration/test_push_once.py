"""Exactly once, in order, whoever pushes and however often."""

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

import deferred
from deferred import PushReport
from deferred.batches import marker
from deferred.batches.batch import queued_transactions
from deferred.batches.cut import next_batch
from deferred.batches.provenance import Sender
from deferred.batches.pusher import only_pusher
from deferred.batches.shipment import prepare_shipment
from deferred.errors import PositionMismatch
from deferred.pushing import batch_by_batch
from deferred.pushing.delivery import deliver
from sites import Directory
from sites.errors import SiteChanged
from sites.sessions import identity
from sites.sessions.prepared import Prepared
from tests.fix_worker import eventually
from tests.fix_worlds import prepared_once
from tests.let_go import LOCKS
from tests.linked_table import (
    application,
    as_refresh,
    link,
    parked,
    queued,
    rows,
    run,
)


@prepared_once("hq", "jfk")
def orders(sites: Directory) -> None:
    """Two orders at both sites; nothing is queued."""
    link(sites)
    for site in sites.values():
        as_refresh(site, "INSERT INTO orders VALUES (1, 'a', 0), (2, 'b', 0)")


def test_push_empties_the_queue_and_a_second_does_nothing(orders: Directory) -> None:
    run(orders["jfk"], "UPDATE orders SET qty = qty + 1")
    report = deferred.push(orders["jfk"])
    assert (report.transactions, report.calls, report.errors) == (1, 2, 0)
    assert queued(orders["jfk"]) == 0
    assert deferred.push(orders["jfk"]).transactions == 0
    assert [row[2] for row in rows(orders["hq"])] == [1, 1]


def test_two_threads_push_at_once(orders: Directory) -> None:
    for _ in range(20):
        run(orders["jfk"], "UPDATE orders SET qty = qty + 1")
    reports: list[PushReport] = []
    threads = [
        threading.Thread(target=lambda: reports.append(deferred.push(orders["jfk"])))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(report.transactions for report in reports) == 20
    assert [row[2] for row in rows(orders["hq"])] == [20, 20]
    assert parked(orders["hq"]) == []


def test_second_pusher_says_that_there_is_another(
    orders: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_by_batch, "PAUSES", (0.1,) * 900)
    run(orders["jfk"], "UPDATE orders SET qty = 1")
    blocker = application(orders["hq"])
    blocker.execute("SELECT * FROM orders FOR UPDATE")
    first = threading.Thread(target=deferred.push, args=[orders["jfk"]])
    first.start()
    _wait_until_blocked(orders)
    reports: list[PushReport] = []
    second = threading.Thread(
        target=lambda: reports.append(deferred.push(orders["jfk"]))
    )
    second.start()
    second.join(timeout=120)
    ended = not second.is_alive()
    blocker.rollback()
    blocker.close()
    first.join()
    second.join()
    assert ended
    assert [(report.another_pusher, report.transactions) for report in reports] == [
        (True, 0)
    ]
    assert queued(orders["jfk"]) == 0


@pytest.mark.parametrize("asked", ["hq", None])
def test_a_push_that_is_refused_at_once_lets_another_push(
    orders: Directory, asked: str | None
) -> None:
    """It takes the lock with its first question, before it knows who it is."""
    jfk = orders["jfk"]
    run(jfk, "UPDATE snaptide.site_identity SET timeline = timeline + 1")
    with pytest.raises(SiteChanged):
        deferred.push(jfk, asked)
    assert run(jfk, LOCKS) == [(0,)]


@pytest.mark.parametrize("begun", [True, False])
def test_an_interrupted_pusher_whose_statement_has_failed_lets_another_push(
    orders: Directory, *, begun: bool
) -> None:
    """Nobody has read the answer of the statement that it had sent."""
    jfk, fails = orders["jfk"], Prepared(text("SELECT 1 / 0"))

    def interrupted() -> None:
        with jfk.session() as connection, only_pusher(connection, "hq") as turn:
            assert turn
            if begun:
                connection.begin()
            fails.send(connection)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    eventually(lambda: not deferred.push(jfk).another_pusher)


def test_pusher_whose_lock_was_lost_applies_nothing_twice(orders: Directory) -> None:
    """Two pushers hold the same batch; the marker lets one of them through."""
    deferred.push(orders["jfk"])  # the two agree; before, each would cut its own
    run(orders["jfk"], "UPDATE orders SET qty = qty + 1")
    with orders["jfk"].transaction() as origin:
        origin_id = identity.read(origin).site_id
        cut = next_batch(origin, "hq", marker.Marker())
        assert cut is not None
        batch, _ = cut
        [transaction] = queued_transactions(origin, batch, -1, batch.end)()
    deferred.push(orders["jfk"])
    who = Sender(id=origin_id, name="jfk", master="hq")
    with orders["jfk"].transaction() as origin, orders["hq"].transaction() as target:
        shipment = prepare_shipment(origin, target, batch, [])
        assert not deliver(shipment, who, transaction).fresh
    assert [row[2] for row in rows(orders["hq"])] == [1, 1]


def test_two_pushers_without_the_lock_wait_for_the_marker(orders: Directory) -> None:
    """The same transaction, delivered twice at once: the second finds it answered."""
    run(orders["jfk"], "UPDATE orders SET qty = qty + 1")
    deferred.push(orders["jfk"])
    run(orders["jfk"], "UPDATE orders SET qty = qty + 1")
    answers: list[bool] = []
    with orders["jfk"].session() as origin, orders["hq"].session() as target:
        who = Sender(id=identity.read(origin).site_id, name="jfk", master="hq")
        at = marker.read(target, who.id)
        cut = next_batch(origin, "hq", at)
        assert cut is not None
        batch, _ = cut
        [transaction] = queued_transactions(origin, batch, -1, batch.end)()
        origin.commit()
        shipment = replace(prepare_shipment(origin, target, batch, []), began_at=at)
        assert deliver(shipment, who, transaction).fresh

        def deliver_again() -> None:
            with orders["hq"].transaction() as other:
                again = replace(shipment, target=other)
                answers.append(deliver(again, who, transaction).fresh)

        second = threading.Thread(target=deliver_again)
        second.start()
        _wait_until_blocked(orders)
        target.commit()
        second.join()
    assert answers == [False]


def test_marker_is_locked_before_anything_is_done(orders: Directory) -> None:
    run(orders["jfk"], "UPDATE orders SET qty = 1")
    deferred.push(orders["jfk"])
    with orders["jfk"].transaction() as origin:
        origin_id = identity.read(origin).site_id
    with orders["hq"].transaction() as first, orders["hq"].session() as second:
        marker.lock(first, origin_id, "jfk")()
        second.exec_driver_sql("SET LOCAL lock_timeout = '100ms'")
        with pytest.raises(OperationalError, match="lock timeout"):
            marker.lock(second, origin_id, "jfk")()


def test_writer_open_over_two_pushes_is_not_lost(orders: Directory) -> None:
    """Its number is the lowest, its commit the last."""
    writer = application(orders["jfk"])
    writer.execute("UPDATE orders SET qty = 100 WHERE id = 1")
    for _ in range(2):
        run(orders["jfk"], "UPDATE orders SET qty = qty + 1 WHERE id = 2")
        assert deferred.push(orders["jfk"]).transactions == 1
    writer.execute("UPDATE orders SET name = 'late' WHERE id = 2")
    writer.commit()
    writer.close()
    assert deferred.push(orders["jfk"]).transactions == 1
    assert deferred.push(orders["jfk"]).transactions == 0
    assert [row[:3] for row in rows(orders["hq"])] == [(1, "a", 100), (2, "late", 2)]


def test_writers_and_pushers_side_by_side(orders: Directory) -> None:
    """Every increment arrives once, in an order in which all old values match."""
    stop = threading.Event()
    errors: list[BaseException] = []

    def write(number: int) -> None:
        with application(orders["jfk"]) as user:
            for _ in range(25):
                user.execute("UPDATE orders SET qty = qty + 1 WHERE id = 1")
                user.execute(
                    "INSERT INTO orders (id) SELECT max(id) FILTER (WHERE id / 1000 ="
                    " %(n)s) + 1 FROM (SELECT id FROM orders UNION ALL"
                    " SELECT %(n)s * 1000) AS known (id)",
                    {"n": number},
                )
                user.commit()

    def push() -> None:
        try:
            while not stop.is_set():
                deferred.push(orders["jfk"])
        except BaseException as error:
            errors.append(error)

    writers = [threading.Thread(target=write, args=[n]) for n in (1, 2, 3)]
    pusher = threading.Thread(target=push)
    for thread in (*writers, pusher):
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    pusher.join()
    deferred.push(orders["jfk"])
    assert errors == []
    assert parked(orders["hq"]) == []
    assert rows(orders["hq"]) == rows(orders["jfk"])
    assert rows(orders["hq"])[0][2] == 75


def test_marker_that_went_back_stops_the_push(orders: Directory) -> None:
    """The destination was restored to before batches that are delivered."""
    for _ in range(3):
        run(orders["jfk"], "UPDATE orders SET qty = qty + 1")
        deferred.push(orders["jfk"])
    run(orders["jfk"], "UPDATE orders SET qty = qty + 1")
    run(orders["hq"], "UPDATE snaptide.push_marker SET batch_no = 1")
    with pytest.raises(PositionMismatch) as caught:
        deferred.push(orders["jfk"])
    assert rows(orders["hq"])[0][2] == 3
    assert queued(orders["jfk"]) == 1
    [(last_error,)] = run(orders["jfk"], "SELECT last_error FROM snaptide.destination")
    assert last_error == caught.value.message


def test_marker_of_another_batch_stops_the_push(orders: Directory) -> None:
    """The origin was restored, and cut another batch of the same number."""
    run(orders["jfk"], "UPDATE orders SET qty = qty + 1")
    deferred.push(orders["jfk"])
    run(orders["jfk"], "UPDATE orders SET qty = qty + 1")
    run(orders["hq"], "UPDATE snaptide.push_marker SET batch_id = gen_random_uuid()")
    with pytest.raises(PositionMismatch):
        deferred.push(orders["jfk"])
    assert rows(orders["hq"])[0][2] == 1


def test_marker_inside_the_batch_is_gone_on_from(orders: Directory) -> None:
    """Restored to the middle of the newest batch: the rest is pushed again."""
    for _ in range(3):
        run(orders["jfk"], "UPDATE orders SET qty = qty + 1")
    deferred.push(orders["jfk"], transaction_count=1)
    run(orders["hq"], "CREATE TABLE kept AS SELECT order_no FROM snaptide.push_marker")
    deferred.push(orders["jfk"])
    as_refresh(
        orders["hq"],
        "UPDATE orders SET qty = 1",
        "UPDATE snaptide.push_marker SET order_no = kept.order_no FROM kept",
    )
    deferred.push(orders["jfk"])
    assert [row[2] for row in rows(orders["hq"])] == [3, 3]
    assert parked(orders["hq"]) == []


def test_two_origins_have_markers_of_their_own(
    make_sites: Callable[..., Directory],
) -> None:
    sites = make_sites("hq", "jfk", "lga")
    link({"hq": sites["hq"], "jfk": sites["jfk"]})
    run(sites["hq"], "ALTER TABLE orders RENAME TO kept")
    link(sites, origin="lga", with_log=False)
    run(sites["hq"], "DROP TABLE orders", "ALTER TABLE kept RENAME TO orders")
    run(sites["jfk"], "INSERT INTO orders (id) VALUES (1)")
    run(sites["lga"], "INSERT INTO orders (id) VALUES (2)")
    deferred.push(sites["jfk"])
    deferred.push(sites["lga"])
    assert [row[0] for row in rows(sites["hq"])] == [1, 2]
    assert run(
        sites["hq"], "SELECT origin, batch_no FROM snaptide.push_marker ORDER BY 1"
    ) == [("jfk", 1), ("lga", 1)]


def _wait_until_blocked(orders: Directory) -> None:
    waiting_lock = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND wait_event_type = 'Lock'"
    )
    eventually(
        lambda: run(orders["hq"], waiting_lock)[0][0], what="a pusher to be waiting"
    )


def test_pushes_keep_no_statement_each(orders: Directory) -> None:
    kept = []
    for _ in range(3):
        run(orders["jfk"], "UPDATE orders SET qty = qty + 1")
        deferred.push(orders["jfk"])
        kept.append(identity._with.cache_info().currsize)
    assert kept[0] == kept[2]
