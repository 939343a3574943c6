"""People are told of conflicts that no rule settled, and their hooks stop no push."""

import logging
import signal
import threading
from collections.abc import Iterator

import pytest

import deferred
from deferred.parked import notification
from deferred.parked.notification import Hook, ParkedConflict
from sites import Directory, Site
from tests.fix_worker import eventually
from tests.fix_worlds import prepared_once
from tests.linked_table import as_refresh, link, run
from tests.pushing import end_push, start_push

Told = list[ParkedConflict]


@prepared_once("hq", "jfk")
def orders(sites: Directory) -> None:
    """Two rows of one transaction of jfk are in conflict, one row of another is not."""
    link(sites)
    for site in sites.values():
        as_refresh(
            site,
            "INSERT INTO orders SELECT g, 'n' || g, 0 FROM generate_series(1, 3) g",
        )
    run(sites["hq"], "UPDATE orders SET qty = 7 WHERE id < 3")
    run(sites["jfk"], "UPDATE orders SET qty = id WHERE id < 3")
    run(sites["jfk"], "UPDATE orders SET qty = 3 WHERE id = 3")


@pytest.fixture(autouse=True)
def _no_hooks() -> Iterator[None]:
    yield
    notification.REGISTRY.forget("listening")


def listen(hook: Hook | None = None) -> Told:
    """What a hook is told, before it does what another does."""
    told: Told = []

    def listening(conflict: ParkedConflict) -> None:
        told.append(conflict)
        if hook is not None:
            hook(conflict)

    notification.REGISTRY.register("listening", listening)
    return told


def waiting(hq: Site) -> list[tuple[object, ...]]:
    return run(
        hq, "SELECT tellings, told_at IS NOT NULL FROM snaptide.error_transaction"
    )


def test_hook_is_called_for_each_conflict_after_the_commit(
    orders: Directory, caplog: pytest.LogCaptureFixture
) -> None:
    seen = []
    told = listen(lambda one: seen.append(deferred.show_error(orders["hq"], 1)))
    with caplog.at_level(logging.WARNING, "deferred.parked.notification"):
        report = deferred.push(orders["jfk"])
    assert (report.transactions, report.errors) == (2, 1)
    assert [one.id for one in seen] == [1, 1]
    assert [(one.master, one.origin, one.table) for one in told] == [
        ("hq", "jfk", "orders")
    ] * 2
    assert [(one.new or {})["qty"] for one in told] == ["1", "2"]
    assert [(one.current or {})["qty"] for one in told] == ["7", "7"]
    assert told[0].reason == "update conflict: no rule"
    assert len([r for r in caplog.records if "Unresolved conflict" in r.message]) == 2
    deferred.push(orders["jfk"])
    assert len(told) == 2
    assert waiting(orders["hq"]) == [(1, True)]


def test_hook_that_raises_is_asked_again_some_times(orders: Directory) -> None:
    def broken(_: ParkedConflict) -> None:
        raise ConnectionError("no mail today")

    told = listen(broken)
    assert deferred.push(orders["jfk"]).transactions == 2
    assert waiting(orders["hq"]) == [(1, False)]
    for _ in range(notification.ATTEMPTS):
        deferred.push(orders["jfk"])
    assert len(told) == notification.ATTEMPTS
    assert waiting(orders["hq"]) == [(notification.ATTEMPTS, True)]


def test_hook_that_hangs_stops_no_push(
    orders: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notification, "SECONDS", 0.2)
    over = threading.Event()
    told = listen(lambda _: over.wait())
    try:
        assert deferred.push(orders["jfk"]).transactions == 2
        assert waiting(orders["hq"]) == [(1, False)]
        eventually(lambda: told, what="the hook to be called")
        assert len(told) == 1
    finally:
        over.set()


def test_what_a_crash_left_out_is_told_by_the_next_push(orders: Directory) -> None:
    status, _ = end_push(start_push(orders, "push.before_mark:kill"), orders)
    assert status == -signal.SIGKILL
    told = listen()
    deferred.push(orders["jfk"])
    assert [one.error_id for one in told] == [1, 1]


def test_value_that_the_database_refuses_is_told_of_too(orders: Directory) -> None:
    """A unique violation raised by the write itself names no call."""
    run(
        orders["hq"],
        "CREATE UNIQUE INDEX few ON orders (qty) WHERE qty = 99",
        "UPDATE orders SET qty = 99, name = 'x' WHERE id = 1",
    )
    run(orders["jfk"], "INSERT INTO orders VALUES (9, 'n9', 99)")
    told = listen()
    deferred.push(orders["jfk"])
    assert any("few" in one.reason for one in told)
