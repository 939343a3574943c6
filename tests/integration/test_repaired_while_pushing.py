"""A site is repaired while a push of before is still at work at the master."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError
from tenacity import retry, retry_if_exception_type, stop_after_delay

import deferred
import snapshots
from deferred.batches.relay import Before, Relay
from deferred.errors import PositionMismatch, PushInterrupted
from masters import rules
from masters.log import restart
from sites import Directory, Site
from snaptide.repair import repair
from tests.fix_db import Clone
from tests.fix_moments import Moments
from tests.fix_worker import eventually
from tests.fix_worlds import prepared_once
from tests.let_go import END_LOCKS
from tests.linked_table import link, rows, run, run_everywhere


@prepared_once("hq", "jfk")
def adding(sites: Directory) -> None:
    """Three transactions wait; two are committed together at hq, the last alone."""
    hq, jfk = sites["hq"], sites["jfk"]
    link(sites, "orders", "id int PRIMARY KEY, qty int NOT NULL")
    rules.set_column_group(hq, "orders", "qty", ["qty"])
    rules.add_update_resolution(hq, "orders", "qty", "additive")
    run_everywhere(sites, "INSERT INTO orders VALUES (1, 0)")
    for amount in (100, 10, 1):
        run(jfk, f"UPDATE orders SET qty = qty + {amount}")


def _losing(sites: Directory, meanwhile: Callable[[], None]) -> Callable[[], None]:
    """The push loses its session at the site, which is repaired, before it goes on."""

    def lose() -> None:
        run(sites["jfk"], END_LOCKS)
        repair(sites["jfk"], restored=True)
        meanwhile()

    return lose


def _push(sites: Directory) -> None:
    with pytest.raises(PushInterrupted):
        deferred.push(sites["jfk"], batch_size=1)


@contextmanager
def _pushing_again(sites: Directory) -> Iterator[Callable[[], None]]:
    """A function that pushes until it waits; in the end it has had nothing to push."""
    later: list[Future[deferred.PushReport]] = []
    with ThreadPoolExecutor() as pool:

        def push_again() -> None:
            later.append(pool.submit(deferred.push, sites["jfk"]))
            blocked = "SELECT 1 FROM pg_locks WHERE NOT granted"
            eventually(lambda: run(sites["hq"], blocked), what="the next push to wait")

        yield push_again
        assert later[0].result().transactions == 0


def test_a_site_that_is_refreshed_meanwhile_does_not_stop_it(
    adding: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It tells the master its position, which the repair moves, too."""
    hq, real = adding["hq"], restart.restart_logs
    snapshots.create(adding["jfk"], "copied", table="orders", master="hq")
    told = "UPDATE snaptide.registered_snapshot SET position = pg_current_snapshot()"
    run(hq, told)

    def restart_later(connection: Connection) -> int:
        monkeypatch.undo()
        run(hq, told)
        return real(connection)

    monkeypatch.setattr(restart, "restart_logs", restart_later)
    assert repair(hq, restored=True).repaired


def test_agreement_waits_for_it(adding: Directory, moments: Moments) -> None:
    hq = adding["hq"]
    with _pushing_again(adding) as push_again:
        lose = _losing(adding, push_again)
        moments.at("push.after_commit", lambda: moments.at("push.after_apply", lose))
        _push(adding)
    assert rows(hq) == [(1, 111)]


def test_agreement_waits_for_it_in_a_later_batch(
    adding: Directory, moments: Moments
) -> None:
    """The place where the marker stood before the wait is in no batch of the site."""
    hq, jfk = adding["hq"], adding["jfk"]
    deferred.push(jfk)
    run(jfk, "UPDATE orders SET qty = qty + 1000")
    with _pushing_again(adding) as push_again:
        moments.at("push.after_apply", _losing(adding, push_again))
        _push(adding)
    assert rows(hq) == [(1, 1111)]


@pytest.mark.parametrize("watching", [False, True])
def test_what_it_brings_later_is_noticed(
    adding: Directory,
    moments: Moments,
    monkeypatch: pytest.MonkeyPatch,
    *,
    watching: bool,
) -> None:
    """Also if it watches for transactions, and so reads the marker after the cut."""
    if watching:
        read_again = Before(may_watch=True)
        monkeypatch.setattr(Relay, "before_batch", lambda *_: read_again)
    hq, jfk = adding["hq"], adding["jfk"]
    cut, done = Event(), Event()
    later: list[Future[deferred.PushReport]] = []
    with ThreadPoolExecutor() as pool:

        def push_again() -> None:
            def wait() -> None:
                cut.set()
                assert done.wait(60)

            moments.at("push.before_cut_commit", wait)
            later.append(pool.submit(deferred.push, jfk))
            assert cut.wait(60)

        moments.at("push.after_commit", _losing(adding, push_again))
        _push(adding)
        done.set()
        with pytest.raises(PositionMismatch):
            later[0].result()
    with pytest.raises(PositionMismatch):
        deferred.push(jfk)
    repair(jfk, restored=True)
    assert deferred.push(jfk).transactions == 0
    assert rows(hq) == [(1, 111)]


@pytest.mark.parametrize("another", [False, True], ids=["in it", "and in the next"])
def test_the_ledger_keeps_what_was_brought(
    adding: Directory, clone: Clone, moments: Moments, *, another: bool
) -> None:
    """Both sites have cut a batch of the same number, and noted it at the master."""
    hq, jfk = adding["hq"], adding["jfk"]
    deferred.push(jfk)
    backup = _back_up(adding, clone)
    for amount in (1000, 2000):
        run(jfk, f"UPDATE orders SET qty = qty + {amount}")
    cut, done = Event(), Event()
    later: list[Future[deferred.PushReport]] = []
    with ThreadPoolExecutor() as pool, _restored(adding, backup) as restored:

        def push_again() -> None:
            def wait() -> None:
                cut.set()
                assert done.wait(60)

            repair(restored, restored=True)
            if another:
                run(jfk, "UPDATE orders SET qty = qty + 4000")
            for amount in (10000, 20000):
                run(restored, f"UPDATE orders SET qty = qty + {amount}")
            moments.at("push.after_plan", wait)
            later.append(pool.submit(deferred.push, restored, group_max_calls=1))
            assert cut.wait(60)

        moments.at("push.after_plan", push_again)
        assert deferred.push(jfk).transactions == 2 + another
        done.set()
        with pytest.raises(PositionMismatch):
            later[0].result()
        repair(restored, restored=True)
        assert deferred.push(restored).transactions == 2
    assert rows(hq) == [(1, 33111 + 4000 * another)]


@retry(retry=retry_if_exception_type(OperationalError), stop=stop_after_delay(90))
def _back_up(sites: Directory, clone: Clone) -> str:
    """A copy of jfk as it is now."""
    name = sites["jfk"].url.database
    assert name is not None
    sites.close()
    return clone(name, "jfk")


@contextmanager
def _restored(sites: Directory, backup: str) -> Iterator[Site]:
    """The site jfk from its backup, while the other one is still there."""
    urls = {
        name: site.url.set(drivername="postgresql").render_as_string(
            hide_password=False
        )
        for name, site in sites.items()
    }
    with Directory({**urls, "jfk": backup}) as some:
        yield some["jfk"]
