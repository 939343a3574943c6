"""The arguments of Oracle's DBMS_DEFER_SYS.EXECUTE, each as the manual says it."""

import time
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

import deferred
from deferred.batches import cut
from deferred.errors import BadOption, NoSuchError, RetryFailed
from deferred.pushing.batch_by_batch import POLL
from sites import Directory
from tests.fix_moments import Moments
from tests.fix_worlds import prepared_once
from tests.linked_table import application, as_refresh, link, parked, queued, rows, run

ONE_BY_ONE = 1
CHANGE = "UPDATE orders SET qty = 7 WHERE id = {}"


@prepared_once("hq", "jfk")
def orders(sites: Directory) -> None:
    """Five orders at both sites; nothing is queued."""
    link(sites)
    for site in sites.values():
        as_refresh(
            site,
            "INSERT INTO orders SELECT g, 'n' || g, 0 FROM generate_series(1, 5) g",
        )


def test_a14_12_transaction_count_delivers_the_first_two_in_commit_order(
    orders: Directory,
) -> None:
    late = application(orders["jfk"])
    late.execute("UPDATE orders SET qty = 1 WHERE id = 1")
    for statement in _updates(2, 3, 4, 5):
        run(orders["jfk"], statement)
    # The first to write has to wait for nothing, but commits last.
    late.execute("UPDATE orders SET qty = 2 WHERE id = 5")
    late.commit()
    late.close()
    report = deferred.push(orders["jfk"], transaction_count=2)
    assert report.transactions == 2
    assert _changed(orders) == [2, 3]
    assert queued(orders["jfk"]) == 3
    assert deferred.push(orders["jfk"]).transactions == 3
    assert rows(orders["hq"]) == rows(orders["jfk"])


@pytest.mark.parametrize("batch_size", [1, 2, 1000])
def test_transaction_count_holds_with_any_batch_size(
    orders: Directory, batch_size: int
) -> None:
    for statement in _updates(1, 2, 3, 4, 5):
        run(orders["jfk"], statement)
    report = deferred.push(orders["jfk"], transaction_count=2, batch_size=batch_size)
    assert report.transactions == 2
    assert _changed(orders) == [1, 2]


def test_a14_13_stop_on_error_leaves_what_follows_queued(orders: Directory) -> None:
    as_refresh(orders["hq"], "UPDATE orders SET qty = 99 WHERE id = 2")
    for statement in _updates(1, 2, 3):
        run(orders["jfk"], statement)
    report = deferred.push(orders["jfk"], stop_on_error=True)
    assert (report.transactions, report.errors) == (2, 1)
    assert _changed(orders) == [1, 2]
    assert [row[2] for row in rows(orders["hq"])] == [7, 99, 0, 0, 0]
    assert queued(orders["jfk"]) == 1
    report = deferred.push(orders["jfk"], stop_on_error=True)
    assert (report.transactions, report.errors) == (1, 0)


def test_a14_14_retry_leaves_the_commit_to_the_caller(orders: Directory) -> None:
    hq = orders["hq"]
    as_refresh(hq, "UPDATE orders SET qty = 99 WHERE id = 2")
    run(orders["jfk"], *_updates(2))
    deferred.push(orders["jfk"])
    [(error_id, *_)] = parked(hq)
    as_refresh(hq, "UPDATE orders SET qty = 0 WHERE id = 2")
    with hq.connect() as connection:
        assert deferred.retry(connection, hq, error_id).applied
        connection.rollback()
    assert [row[0] for row in parked(hq)] == [error_id]
    assert rows(hq)[1][2] == 0
    with hq.connect() as connection:
        assert deferred.retry(connection, hq, error_id).applied
        connection.commit()
    assert parked(hq) == []
    assert rows(hq)[1][2] == 7
    with hq.connect() as connection, pytest.raises(NoSuchError):
        deferred.retry(connection, hq, error_id)


def test_retry_that_fails_leaves_the_callers_transaction_usable(
    orders: Directory,
) -> None:
    hq = orders["hq"]
    as_refresh(hq, "UPDATE orders SET qty = 99 WHERE id = 2")
    run(orders["jfk"], *_updates(2))
    deferred.push(orders["jfk"])
    [(error_id, *_)] = parked(hq)
    with hq.connect() as connection:
        with pytest.raises(RetryFailed, match="update conflict"):
            deferred.retry(connection, hq, error_id)
        connection.exec_driver_sql("UPDATE public.orders SET qty = 0 WHERE id = 2")
        deferred.retry(connection, hq, error_id)
        connection.commit()
    assert rows(hq)[1][2] == 7


def test_execution_seconds_ends_between_two_transactions(
    orders: Directory, moments: Moments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first takes an hour, as the push sees it."""
    hours = [0]
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + 3600 * hours[0])
    monkeypatch.setattr("deferred.pushing.run.time", clock)
    moments.at("push.after_apply", lambda: hours.append(hours.pop() + 1))
    for statement in _updates(1, 2, 3):
        run(orders["jfk"], statement)
    report = deferred.push(
        orders["jfk"], execution_seconds=3000, group_max_calls=ONE_BY_ONE
    )
    assert report.transactions == 1
    assert _changed(orders) == [1]
    assert queued(orders["jfk"]) == 2


def test_delay_seconds_waits_for_work(
    orders: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It finds nothing; a user writes while it sleeps; it looks again."""
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        run(orders["jfk"], *_updates(3))

    clock = SimpleNamespace(monotonic=time.monotonic, sleep=sleep)
    monkeypatch.setattr("deferred.pushing.batch_by_batch.time", clock)
    report = deferred.push(orders["jfk"], delay_seconds=3600, transaction_count=1)
    assert report.transactions == 1
    assert slept == [POLL]
    assert _changed(orders) == [3]


def test_without_work_a_push_returns_at_once(orders: Directory) -> None:
    report = deferred.push(orders["jfk"])
    assert (report.transactions, report.calls, report.errors) == (0, 0, 0)
    assert not report.another_pusher


@pytest.mark.parametrize(("batch_size", "commits"), [(0, 3), (1, 2), (100, 1)])
def test_batch_size_commits_several_transactions_together(
    orders: Directory, batch_size: int, commits: int
) -> None:
    """Oracle: commit once more than batch_size calls have run."""
    for statement in _updates(1, 2, 3):
        run(orders["jfk"], statement)
    report = deferred.push(
        orders["jfk"], batch_size=batch_size, group_max_calls=ONE_BY_ONE
    )
    assert report.transactions == 3
    assert run(
        orders["hq"],
        "SELECT count(DISTINCT xid) FROM snaptide.\"mlog$_orders\" WHERE kind = 'U'",
    ) == [(commits,)]


def test_error_within_a_batch_size_parks_only_itself(orders: Directory) -> None:
    as_refresh(orders["hq"], "UPDATE orders SET qty = 99 WHERE id = 2")
    for statement in _updates(1, 2, 3):
        run(orders["jfk"], statement)
    report = deferred.push(orders["jfk"], batch_size=1000)
    assert (report.transactions, report.errors) == (3, 1)
    assert [row[2] for row in rows(orders["hq"])] == [7, 99, 7, 0, 0]


@pytest.mark.parametrize("calls", [1, 2, 3, 100])
def test_batches_are_cut_inside_a_window(
    orders: Directory, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    monkeypatch.setattr(cut, "BATCH_CALLS", calls)
    for statement in (*_updates(1, 2), "UPDATE orders SET qty = qty + 1"):
        run(orders["jfk"], statement)
    late = application(orders["jfk"])
    late.execute("INSERT INTO orders (id) VALUES (6)")
    report = deferred.push(orders["jfk"], transaction_count=1)
    late.commit()
    late.close()
    run(orders["jfk"], "UPDATE orders SET qty = 100 WHERE id = 6")
    report = deferred.push(orders["jfk"])
    assert (report.transactions, report.errors) == (4, 0)
    assert rows(orders["hq"]) == rows(orders["jfk"])
    assert queued(orders["jfk"]) == 0


def test_batches_are_numbered_without_a_gap(
    orders: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cut, "BATCH_CALLS", 2)
    for statement in _updates(1, 2, 3, 4, 5):
        run(orders["jfk"], statement)
    deferred.push(orders["jfk"])
    assert run(
        orders["jfk"],
        "SELECT batch, count(*) FROM snaptide.delivery GROUP BY 1 ORDER BY 1",
    ) == [(1, 2), (2, 2), (3, 1)]
    assert run(orders["hq"], "SELECT batch_no FROM snaptide.push_marker") == [(3,)]


@pytest.mark.parametrize(
    "option",
    ["transaction_count", "execution_seconds", "delay_seconds", "batch_size"],
)
def test_negative_options_are_refused(orders: Directory, option: str) -> None:
    options: dict[str, Any] = {option: -1}
    with pytest.raises(BadOption, match=option):
        deferred.push(orders["jfk"], **options)


def test_progress_is_told(orders: Directory) -> None:
    told: list[tuple[int, int | None, str]] = []
    for statement in _updates(1, 2):
        run(orders["jfk"], statement)
    deferred.push(
        orders["jfk"],
        group_max_calls=ONE_BY_ONE,
        progress=lambda *step: told.append(step),
    )
    assert told == [(0, 2, "calls"), (1, 2, "calls"), (2, 2, "calls")]


def test_progress_of_a_large_transaction_is_told_while_it_is_sent(
    orders: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deferred.pushing.run.MANY", 10)
    monkeypatch.setattr("sites.transfer.transport.COUNTED", 5)
    told: list[tuple[int, int | None, str]] = []
    run(
        orders["jfk"],
        "INSERT INTO orders (id) SELECT generate_series(101, 112)",
        "UPDATE orders SET qty = 7 WHERE id = 101",
    )
    deferred.push(
        orders["jfk"],
        bulk_threshold=0,
        progress=lambda *step: told.append(step),
    )
    assert told == [
        (0, 13, "calls"),
        (5, 13, "changes sent"),
        (10, 13, "changes sent"),
        (12, 13, "changes written"),
        (13, 13, "calls"),
    ]


def test_progress_of_a_large_transaction_is_told_while_it_is_written(
    orders: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each statement writes some rows at a time, and all of them in the end."""
    monkeypatch.setattr("deferred.pushing.run.MANY", 10)
    monkeypatch.setattr("sites.writing.counted.SLICE", 2)
    told: list[tuple[int, int | None, str]] = []
    run(
        orders["jfk"],
        "INSERT INTO orders (id) SELECT generate_series(101, 106)",
        "UPDATE orders SET qty = 7 WHERE id BETWEEN 2 AND 5",
        "DELETE FROM orders WHERE id = 1",
    )
    deferred.push(orders["jfk"], progress=lambda *step: told.append(step))
    written = [done for done, total, unit in told if unit == "changes written"]
    assert written == sorted(written)
    assert written[-1] == 11
    assert {2, 4, 6, 8, 10} <= set(written)
    assert rows(orders["hq"]) == rows(orders["jfk"])


def test_a_trigger_for_statements_sees_one_whoever_watches(
    orders: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sites.writing.counted.SLICE", 2)
    run(
        orders["hq"],
        "CREATE TABLE seen (n bigint)",
        "CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO seen SELECT count(*) FROM added; RETURN NULL; END $$",
        "CREATE TRIGGER look AFTER INSERT ON orders REFERENCING NEW TABLE AS added"
        " FOR EACH STATEMENT EXECUTE FUNCTION look()",
    )
    run(orders["jfk"], "INSERT INTO orders (id) SELECT generate_series(101, 106)")
    deferred.push(orders["jfk"], progress=lambda *_: None)
    assert rows(orders["hq"], "seen") == [(6,)]


def test_progress_counts_what_is_left_in_batch_and_queue(
    orders: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One batch was begun and one is not cut yet; more comes in the meantime."""
    monkeypatch.setattr(cut, "BATCH_CALLS", 2)
    told: list[tuple[int, int | None, str]] = []
    jfk = orders["jfk"]
    for statement in _updates(1, 2, 3):
        run(jfk, statement)
    deferred.push(jfk, transaction_count=1)
    run(jfk, "UPDATE orders SET qty = qty + 1")

    def tell(done: int, total: int | None, unit: str) -> None:
        told.append((done, total, unit))
        if told.count((7, 7, "calls")) == 1 and done == total == 7:
            run(jfk, "UPDATE orders SET qty = 9 WHERE id = 5")

    deferred.push(jfk, progress=tell)
    assert told[0] == (0, 7, "calls")
    assert told[-1] == (8, 8, "calls")
    assert [step[0] for step in told] == sorted(step[0] for step in told)
    assert {step[1] for step in told} == {7, 8}


def test_purge_keeps_what_is_not_delivered(orders: Directory) -> None:
    run(orders["jfk"], *_updates(1))
    deferred.purge(orders["jfk"], retention=timedelta(0), fold_after=timedelta(0))
    assert deferred.push(orders["jfk"]).transactions == 1


def _updates(*ids: int) -> list[str]:
    return [CHANGE.format(number) for number in ids]


def _changed(orders: Directory) -> list[int]:
    return [row[0] for row in rows(orders["hq"]) if row[2] != 0]
