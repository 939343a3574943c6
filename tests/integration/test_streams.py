"""Several streams to one destination: side by side, and as one would have done it."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Barrier, Lock

import pytest

import deferred
from deferred.batches import marker
from deferred.batches.cut import next_batch
from deferred.batches.shipment import prepare_shipment
from deferred.parked.retry import RetryReport
from deferred.pushing import batch_by_batch
from deferred.pushing.dependence import last_shared
from deferred.queues.queue import list_queues
from masters import rules
from sites import Directory, Site, faults
from tests.fix_moments import Moments
from tests.fix_worlds import prepared_once
from tests.linked_table import (
    application,
    as_refresh,
    link,
    parked,
    queued,
    rows,
    run,
    run_each,
)
from tests.pushing import push_without_turns

#: For those who meet: longer than any machine takes to get there.
SECONDS = 90


class Meeting:
    """Lets those who first come to a fault point wait there for each other."""

    def __init__(self, point: str, parties: int = 2) -> None:
        self._point, self._left = point, parties
        self._barrier, self._lock = Barrier(parties), Lock()

    def __call__(self, point: str) -> None:
        if point != self._point:
            return
        with self._lock:
            self._left -= 1
            expected = self._left >= 0
        if expected:
            self._barrier.wait(SECONDS)


@prepared_once("hq", "jfk")
def orders(sites: Directory) -> None:
    """Six orders at both sites."""
    link(sites)
    for site in sites.values():
        as_refresh(
            site,
            "INSERT INTO orders SELECT g, 'n' || g, 0 FROM generate_series(1, 6) g",
        )


def counting(*ids: int) -> list[str]:
    """A transaction for each of these rows."""
    return [f"UPDATE orders SET qty = qty + 1 WHERE id = {n}" for n in ids]


@pytest.mark.parametrize("calls", [1, 2])
def test_independent_groups_are_applied_side_by_side(
    orders: Directory, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    """Two stand applied, and none of them committed, at the same time."""
    run_each(orders["jfk"], *counting(1, 2, 3, 4))
    monkeypatch.setattr(faults, "point", Meeting("stream.after_apply"))
    report = deferred.push(orders["jfk"], parallelism=2, group_max_calls=calls)
    assert (report.transactions, report.calls, report.errors) == (4, 4, 0)
    assert rows(orders["hq"]) == rows(orders["jfk"])
    assert queued(orders["jfk"]) == 0


def test_streams_commit_in_order(orders: Directory, moments: Moments) -> None:
    """One that is ready first waits: the marker has the first one's place by then."""
    run_each(orders["jfk"], *counting(1, 2, 3, 4, 5, 6))
    seen: list[list[tuple[int, int]]] = []

    def look() -> None:
        seen.append(
            run(orders["hq"], "SELECT id, qty FROM orders WHERE qty = 1 ORDER BY id")
        )
        moments.at("stream.after_commit", look)

    moments.at("stream.after_commit", look)
    deferred.push(orders["jfk"], parallelism=3, group_max_calls=1)
    assert seen == [[(n, 1) for n in range(1, m + 1)] for m in range(1, len(seen) + 1)]
    assert rows(orders["hq"]) == rows(orders["jfk"])


def test_serial_when_told(orders: Directory, moments: Moments) -> None:
    serial: tuple[deferred.PushArguments, ...] = (
        {"group_max_calls": 1, "parallelism": 1},
        {"group_max_calls": 1, "parallelism": 4, "batch_size": 1},
    )
    for options in serial:
        run_each(orders["jfk"], *counting(1, 2))
        deferred.push(orders["jfk"], **options)
    assert not [point for point in moments.reached if point.startswith("stream.")]
    assert rows(orders["hq"]) == rows(orders["jfk"])


def test_one_that_meets_anything_is_done_again_in_its_turn(
    orders: Directory, moments: Moments
) -> None:
    """A conflict that a rule settles, and one that none does, with what follows it."""
    rules.set_column_group(orders["hq"], "orders", "qty", ["qty"])
    rules.add_update_resolution(orders["hq"], "orders", "qty", "additive")
    as_refresh(
        orders["hq"],
        "UPDATE orders SET qty = 10 WHERE id = 2",
        "UPDATE orders SET name = 'other' WHERE id = 4",
    )
    run_each(
        orders["jfk"],
        *counting(1, 2, 3),
        "UPDATE orders SET name = 'mine' WHERE id = 4",
        "UPDATE orders SET name = 'mine too' WHERE id = 4",
        *counting(5, 6),
    )
    report = deferred.push(orders["jfk"], parallelism=2, group_max_calls=1)
    assert (report.transactions, report.conflicts_resolved, report.errors) == (7, 1, 2)
    assert "stream.after_refusal" in moments.reached
    assert [row[:3] for row in rows(orders["hq"])] == [
        (1, "n1", 1),
        (2, "n2", 11),
        (3, "n3", 1),
        (4, "other", 0),
        (5, "n5", 1),
        (6, "n6", 1),
    ]
    assert [error[1] for error in parked(orders["hq"])] == ["conflict", "dependant"]


def test_what_another_pusher_has_delivered_is_passed_over(
    orders: Directory, moments: Moments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows are as they were before it, so that nothing but the marker tells."""
    push_without_turns(monkeypatch)
    run_each(
        orders["jfk"],
        *counting(1, 2),
        *(f"UPDATE orders SET qty = qty - 1 WHERE id = {n}" for n in (1, 2)),
    )
    moments.at(
        "push.after_plan", lambda: deferred.push(orders["jfk"], group_max_calls=1)
    )
    report = deferred.push(orders["jfk"], parallelism=2, group_max_calls=1)
    assert "stream.after_apply" in moments.reached
    assert report.transactions == 0
    # Six came with the rows.
    assert run(orders["hq"], 'SELECT count(*) FROM snaptide."mlog$_orders"') == [(10,)]


def test_retry_comes_between_two_rounds(orders: Directory) -> None:
    """Who settles an error waits for the streams, and they for him."""
    as_refresh(orders["hq"], "UPDATE orders SET qty = 9 WHERE id = 1")
    run_each(orders["jfk"], *counting(1, 2, 3))
    deferred.push(orders["jfk"], parallelism=2, group_max_calls=1)
    [error] = parked(orders["hq"])
    run_each(orders["jfk"], *counting(4, 5, 6))
    as_refresh(orders["hq"], "UPDATE orders SET qty = 0 WHERE id = 1")
    with orders["hq"].session() as settling:
        with orders["jfk"].begin() as origin:
            [origin_id] = run(
                orders["hq"], "SELECT origin_id FROM snaptide.push_marker"
            )[0]
            del origin
        marker.lock(settling, origin_id, "jfk")()
        with ThreadPoolExecutor(1) as pool:
            pushed = pool.submit(
                deferred.push, orders["jfk"], parallelism=2, group_max_calls=1
            )
            while not pushed.done() and not _waiting(orders["hq"]):
                pass
            settling.rollback()
            assert pushed.result(SECONDS).transactions == 3
    [report] = deferred.retry_errors(orders["hq"], [error[0]])
    assert report.applied
    assert [row[2] for row in rows(orders["hq"])] == [1] * 6


def test_retry_does_not_wait_until_a_parallel_push_is_over(
    orders: Directory, moments: Moments
) -> None:
    """Streams leave the marker to who waits for it, and go on behind him."""
    hq = orders["hq"]
    as_refresh(hq, "UPDATE orders SET qty = 9 WHERE id = 1")
    run_each(orders["jfk"], *counting(1))
    deferred.push(orders["jfk"])
    [error] = parked(hq)
    as_refresh(hq, "UPDATE orders SET qty = 0 WHERE id = 1")
    run_each(orders["jfk"], *counting(*[2, 3, 4, 5, 6] * 8))
    stood: list[int] = []

    def settle() -> None:
        settled.append(pool.submit(deferred.retry_errors, hq, [error[0]]))
        while not settled[0].done() and not _waiting(hq, "wait_event = 'advisory'"):
            pass

    def look() -> None:
        stood.extend(run(hq, "SELECT order_no FROM snaptide.push_marker")[0])

    with ThreadPoolExecutor(1) as pool:
        settled: list[Future[list[RetryReport]]] = []
        moments.at("stream.after_apply", settle)
        moments.at("retry.before_commit", look)
        deferred.push(orders["jfk"], parallelism=2, group_max_calls=1)
        [report] = settled[0].result(SECONDS)
    assert report.applied
    assert stood < list(run(hq, "SELECT order_no FROM snaptide.push_marker")[0])
    assert [row[2] for row in rows(hq)] == [1, 8, 8, 8, 8, 8]


def test_two_pushes_over_the_same_rows_never_lock_each_other_out(
    make_sites: Callable[..., Directory], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changed in opposite orders; both stand half way, while a user keeps a row."""
    sites = make_sites("hq", "jfk", "lga")
    link(sites)
    run(sites["hq"], "ALTER TABLE orders RENAME TO kept")
    link(sites, origin="lga", with_log=False)
    run(sites["hq"], "DROP TABLE orders", "ALTER TABLE kept RENAME TO orders")
    rules.set_column_group(sites["hq"], "orders", "qty", ["qty"])
    rules.add_update_resolution(sites["hq"], "orders", "qty", "additive")
    ids = range(1, 201)
    for site in sites.values():
        as_refresh(
            site,
            "INSERT INTO orders SELECT g, 'n' || g, 0 FROM generate_series(1, 200) g",
        )
    run_each(sites["jfk"], *counting(*ids))
    run_each(sites["lga"], *counting(*reversed(ids)))
    monkeypatch.setattr(marker, "LOCK_TIMEOUT", f"{SECONDS}s")
    # A deadlock, which the server ends, is not tried again.
    monkeypatch.setattr(batch_by_batch, "PAUSES", ())
    user = application(sites["hq"])
    user.execute("SELECT FROM orders WHERE id = 100 FOR UPDATE")
    with ThreadPoolExecutor(2) as pool:
        pushed = [pool.submit(deferred.push, sites[name]) for name in ("jfk", "lga")]
        while not any(one.done() for one in pushed) and len(_waiting(sites["hq"])) < 2:
            pass
        user.rollback()
        assert [one.result().errors for one in pushed] == [0, 0]
    user.close()
    assert {row[2] for row in rows(sites["hq"])} == {2}


#: Of a parent, and of two children of it with the unique values a and b.
PARENT = "UPDATE p SET v = 1"
CHILD, OTHER_CHILD = (f"UPDATE c SET v = v + 1 WHERE id = {n}" for n in (1, 2))
GIVE, TAKE = "UPDATE c SET u = 'x' WHERE id = 1", "UPDATE c SET u = 'a' WHERE id = 2"
NEW, OTHER_NEW = (f"INSERT INTO c VALUES ({n}, 'n{n}', 0, 1)" for n in (3, 4))


@pytest.mark.parametrize(
    ("log", "shared"),
    [
        ([CHILD, OTHER_CHILD], {}),
        ([CHILD, OTHER_CHILD, CHILD], {2: 0}),
        ([GIVE, TAKE], {1: 0}),
        ([PARENT, NEW], {1: 0}),
        ([NEW, PARENT], {1: 0}),
        ([NEW, OTHER_NEW], {}),
        ([PARENT, NEW, OTHER_NEW], {1: 0, 2: 0}),
    ],
)
def test_what_shares_a_row_a_unique_value_or_a_foreign_key(
    sites: Directory, log: list[str], shared: dict[int, int]
) -> None:
    """By their places, which one is found for which."""
    link(sites, "p", "id int PRIMARY KEY, v int")
    link(
        sites, "c", "id int PRIMARY KEY, u text UNIQUE, v int, p int REFERENCES p (id)"
    )
    for site in sites.values():
        as_refresh(
            site,
            "INSERT INTO p VALUES (1, 0)",
            "INSERT INTO c VALUES (1, 'a', 0, 1), (2, 'b', 0, 1)",
        )
    run_each(sites["jfk"], *log)
    assert _shared(sites["jfk"], sites["hq"]) == shared


def _waiting(site: Site, how: str = "true") -> list[tuple[object, ...]]:
    """The sessions that wait for others."""
    return run(
        site,
        "SELECT pid FROM pg_stat_activity"
        f" WHERE datname = current_database() AND wait_event_type = 'Lock' AND {how}",
    )


def _shared(jfk: Site, hq: Site) -> dict[int, int]:
    with jfk.session() as origin, hq.session() as target:
        cut = next_batch(origin, "hq", marker.Marker())
        assert cut is not None
        batch, _ = cut
        queues = list_queues(origin, "hq")
        found = last_shared(prepare_shipment(origin, target, batch, queues), -1, 100)
        numbers = origin.exec_driver_sql(
            "SELECT order_no FROM snaptide.delivery ORDER BY order_no"
        )
        places = {row.order_no: place for place, row in enumerate(numbers)}
        return {places[one]: places[other] for one, other in found.items()}
