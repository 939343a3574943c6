"""What listens for commits pushes small queues itself, and leaves the rest to tasks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import psycopg
import pytest
from celery import Celery
from redis import Redis

import deferred
from deferred import schedules
from deferred.batches.pusher import only_pusher
from deferred.pushing import push
from deferred.queues import backlog
from sites import Directory, Site
from snaptide import small_pushes
from snaptide.application import PUSH, celery_app
from snaptide.listener import Listening
from snaptide.request_limiter import ENOUGH
from snaptide.settings import Settings
from tests.fix_worker import WriteSettings, eventually, waiting_tasks
from tests.linked_table import application, link, rows, run, scalar

#: Seconds; longer than any of these tests takes, so that nothing helps by itself.
LONG = "[worker]\npoll = 3600\n"

_SESSION = (
    "SELECT pid FROM pg_stat_activity WHERE application_name = 'snaptide-listener'"
    " AND datname = current_database()"
)


@pytest.fixture
def redis(broker: str) -> Iterator[Redis]:
    with Redis.from_url(broker) as client:
        yield client


@pytest.fixture
def app_of(broker: str, write_settings: WriteSettings) -> Callable[[Directory], Celery]:
    return lambda sites: celery_app(Settings.load(write_settings(sites, broker, LONG)))


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No push is left to a task because the machine is slow."""
    monkeypatch.setattr(small_pushes, "PATIENCE", 600)


@contextmanager
def listening(app: Celery, *sites: Site) -> Iterator[None]:
    """Listen to sites as a worker does, once each of them is connected."""
    one = Listening(app, sites)
    before = [len(run(site, _SESSION)) for site in sites]
    one.start()
    try:
        for site, there in zip(sites, before, strict=True):
            eventually(partial(_more_listen, site, there))
        yield
    finally:
        one.stop()


def _more_listen(site: Site, than: int) -> bool:
    return len(run(site, _SESSION)) > than


def insert(site: Site, *ids: int) -> None:
    for number in ids:
        run(site, f"INSERT INTO orders (id) VALUES ({number})")


def ids(site: Site) -> list[int]:
    return sorted(row[0] for row in rows(site, "orders"))


def tasks(redis: Redis, site: str) -> list[dict[str, Any]]:
    """The headers of the pushes that wait for a worker."""
    headers = [one["headers"] for one in waiting_tasks(redis, site)]
    return [one for one in headers if one["task"] == PUSH]


@pytest.mark.usefixtures("patient")
def test_commits_are_pushed_without_a_task(
    sites: Directory, app_of: Callable[[Directory], Celery], redis: Redis
) -> None:
    link(sites)
    insert(sites["jfk"], 1)
    with listening(app_of(sites), sites["jfk"]):
        eventually(lambda: ids(sites["hq"]) == [1])  # it came before the listener
        insert(sites["jfk"], 2, 3)  # of two at once, the second is not announced
        eventually(lambda: ids(sites["hq"]) == [1, 2, 3])
        insert(sites["jfk"], 4)
        eventually(lambda: ids(sites["hq"]) == [1, 2, 3, 4])
    assert tasks(redis, "jfk") == []
    # It was told to stop, and ended the push that ran.
    (line,) = deferred.list_destinations(sites["jfk"])
    assert (line.last_txn_count, line.transactions, line.last_error) == (1, 0, None)


def test_a_long_queue_is_a_task(
    sites: Directory, app_of: Callable[[Directory], Celery], redis: Redis
) -> None:
    link(sites)
    insert(sites["jfk"], *range(backlog.FEW + 1))
    with listening(app_of(sites), sites["jfk"]):
        (task,) = eventually(lambda: tasks(redis, "jfk"))
    assert (task["argsrepr"], task["retries"]) == ("['jfk', 'hq']", 0)
    assert ids(sites["hq"]) == []


def test_a_large_transaction_is_a_task(
    sites: Directory, app_of: Callable[[Directory], Celery], redis: Redis
) -> None:
    link(sites)
    many = f"SELECT generate_series(1, {push.SMALL + 1})"
    with listening(app_of(sites), sites["jfk"]):
        run(sites["jfk"], f"INSERT INTO orders (id) {many}")
        eventually(lambda: tasks(redis, "jfk"))
    assert ids(sites["hq"]) == []
    # Its batch was cut, and is what the task's push goes on with.
    report = deferred.push(sites["jfk"])
    assert (report.transactions, report.unfinished) == (1, False)


def test_tasks_that_no_worker_takes_do_not_add_up(
    sites: Directory, app_of: Callable[[Directory], Celery], redis: Redis
) -> None:
    link(sites)
    insert(sites["jfk"], *range(backlog.FEW + 1))

    def tasks_after_looking(times: int) -> int:
        for _ in range(times):
            for name, found in small_pushes._waiting(sites["jfk"]).items():
                pushes._ask(sites["jfk"], name, found)
        return len(tasks(redis, "jfk"))

    with small_pushes.SmallPushes(app_of(sites), lasting=3600) as pushes:
        assert tasks_after_looking(3) == 3
        assert tasks_after_looking(ENOUGH) == ENOUGH
        deferred.push(sites["jfk"])
        insert(sites["jfk"], *range(1_000, 1_001 + backlog.FEW))
        assert tasks_after_looking(5) == ENOUGH + 5
    with small_pushes.SmallPushes(app_of(sites), lasting=0) as pushes:
        assert tasks_after_looking(ENOUGH + 5) == 2 * ENOUGH + 10


def test_a_master_that_is_away_is_left_to_a_task_that_tries_again(
    sites: Directory, app_of: Callable[[Directory], Celery], redis: Redis
) -> None:
    link(sites)
    app = app_of(sites)
    nowhere = sites["hq"].url.set(port=1)
    split = Directory({"jfk": sites["jfk"].url, "hq": nowhere})
    with split, listening(app, split["jfk"]):
        insert(split["jfk"], 1)
        (task,) = eventually(lambda: tasks(redis, "jfk"))
    # As the retry of what failed, it is not kept off by the pause after the failure.
    assert (task["argsrepr"], task["retries"]) == ("['jfk', 'hq']", 1)
    assert task["eta"] is not None
    (line,) = deferred.list_destinations(sites["jfk"])
    assert line.last_error is not None
    assert line.retry_at is not None


@pytest.mark.usefixtures("patient")
def test_it_looks_again_when_another_push_was_at_work(
    sites: Directory, app_of: Callable[[Directory], Celery]
) -> None:
    link(sites)
    jfk = sites["jfk"]
    with listening(app_of(sites), jfk):
        with jfk.session() as other, only_pusher(other, "hq") as turn:
            assert turn.held
            insert(jfk, 1)
            waits = threading.Event()
            assert not waits.wait(1)
            assert ids(sites["hq"]) == []
        eventually(lambda: ids(sites["hq"]) == [1])


@pytest.mark.usefixtures("patient")
def test_a_line_that_is_cut_is_opened_again(
    sites: Directory, app_of: Callable[[Directory], Celery]
) -> None:
    link(sites)
    with listening(app_of(sites), sites["jfk"]):
        ((first,),) = run(sites["jfk"], _SESSION)
        run(sites["jfk"], f"SELECT pg_terminate_backend({first})")
        insert(sites["jfk"], 1)
        eventually(lambda: ids(sites["hq"]) == [1])
        eventually(lambda: run(sites["jfk"], _SESSION) not in ([], [(first,)]))
        insert(sites["jfk"], 2)
        eventually(lambda: ids(sites["hq"]) == [1, 2])


@pytest.mark.usefixtures("patient")
def test_two_that_listen_to_one_site_push_each_change_once(
    sites: Directory, app_of: Callable[[Directory], Celery], redis: Redis
) -> None:
    link(sites)
    app = app_of(sites)
    with (
        Directory({s.name: s.url for s in sites.values()}) as beside,
        listening(app, sites["jfk"]),
        listening(app, beside["jfk"]),
    ):
        for number in range(1, 21):
            insert(sites["jfk"], number)
        eventually(lambda: len(ids(sites["hq"])) == 20)
    assert ids(sites["hq"]) == list(range(1, 21))
    assert scalar(sites["hq"], "SELECT count(*) FROM snaptide.deferror") == 0
    delivered = "SELECT delivered FROM snaptide.destination"
    eventually(lambda: scalar(sites["jfk"], delivered) == 20)


@pytest.mark.usefixtures("patient")
def test_the_error_of_a_schedule_is_over_when_a_push_goes_well(
    sites: Directory, app_of: Callable[[Directory], Celery]
) -> None:
    link(sites)
    jfk = sites["jfk"]
    schedules.schedule(jfk, "push", "hq", every="1h")
    run(jfk, "UPDATE snaptide.schedule SET last_error = 'no', asked_at = now()")
    with listening(app_of(sites), jfk):
        insert(jfk, 1)
        noted = "SELECT last_error IS NULL AND asked_at IS NULL FROM snaptide.schedule"
        eventually(lambda: scalar(jfk, noted))


@pytest.mark.usefixtures("patient")
def test_a_master_that_hangs_delays_only_its_own_sites(
    make_sites: Callable[..., Directory], app_of: Callable[[Directory], Celery]
) -> None:
    names = [f"s{number}" for number in range(8)]
    sites = make_sites("hq", "slow", *names)
    for number, name in enumerate(names):
        link(sites, f"orders_{number}", master=_master(number), origin=name)
    before = threading.active_count()
    with application(sites["slow"]) as holder:
        for number in range(0, 8, 2):  # a user holds what each of these needs
            holder.execute(f"LOCK TABLE orders_{number}")
        with listening(app_of(sites), *(sites[name] for name in names)):
            for number, name in enumerate(names):
                run(sites[name], f"INSERT INTO orders_{number} (id) VALUES (1)")
            for number in range(1, 8, 2):
                eventually(partial(rows, sites["hq"], f"orders_{number}"))
            added = threading.active_count() - before
            assert added <= 1 + small_pushes.AT_ONCE + small_pushes.LOOKING
            holder.rollback()


def _master(number: int) -> str:
    return "hq" if number % 2 else "slow"


@pytest.mark.usefixtures("patient")
def test_what_has_stopped_leaves_no_thread_and_no_session(
    sites: Directory, app_of: Callable[[Directory], Celery]
) -> None:
    link(sites)
    before = set(threading.enumerate())
    with listening(app_of(sites), sites["jfk"]):
        insert(sites["jfk"], 1)
        eventually(lambda: ids(sites["hq"]) == [1])
    assert set(threading.enumerate()) <= before
    eventually(lambda: not run(sites["jfk"], _SESSION))


@pytest.mark.usefixtures("patient")
def test_it_comes_back_to_a_site_that_was_away(
    sites: Directory,
    app_of: Callable[[Directory], Celery],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    link(sites)
    connect = psycopg.AsyncConnection.connect
    failed = threading.Event()

    async def refused(*arguments: Any, **named: Any) -> Any:
        if not failed.is_set():
            failed.set()
            raise psycopg.OperationalError("connection refused")
        return await connect(*arguments, **named)

    monkeypatch.setattr(psycopg.AsyncConnection, "connect", refused)
    with listening(app_of(sites), sites["jfk"]):
        assert failed.is_set()
        insert(sites["jfk"], 1)
        eventually(lambda: ids(sites["hq"]) == [1])
