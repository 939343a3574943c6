"""Redis goes with all its data, beat is killed: nothing is lost, nothing runs twice.

The queue and the schedules are in the sites' databases, and so are the locks that
keep a second push or refresh out: Redis can forget everything at any time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from deferred import schedules
from sites import Directory, Site
from snaptide.embedded import RedisServer
from tests.fix_worker import NOT_LISTENING, Service, Services, WriteSettings, eventually
from tests.fix_worlds import prepared_once
from tests.let_go import wait_until_let_go
from tests.linked_table import application, queued, run
from tests.stories import adding_up, assert_equal_to_master, settle

pytestmark = pytest.mark.usefixtures("spark")

SUM = "SELECT n FROM public.t WHERE id = 1"
LOCKED = (
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
PUSHING = f"{LOCKED} AND classid = hashtext('snaptide.push')::bit(32)::int8"
REFRESHING = f"{LOCKED} AND classid = hashtext('snaptide.refresh')::bit(32)::int8"
FAR = "SELECT next_at > now() + interval '50 minutes' FROM snaptide.schedule"
#: Whoever changes a row takes as long as somebody else holds the lock.
SLOW = (
    (
        "CREATE FUNCTION public.wait() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN"
        " WHILE NOT pg_try_advisory_xact_lock(1) LOOP PERFORM pg_sleep(0.05); END LOOP;"
        " RETURN NEW; END'"
    ),
    (
        "CREATE TRIGGER wait BEFORE UPDATE ON public.t"
        " FOR EACH ROW EXECUTE FUNCTION public.wait()"
    ),
)
REFRESHED = "SELECT position::text FROM snaptide.refresh_group"


@prepared_once("hq", "jfk")
def counter(sites: Directory) -> None:
    """One number, at hq and in an updatable snapshot, that adds up what arrives."""
    hq, jfk = sites["hq"], sites["jfk"]
    adding_up(hq, jfk, 1)
    # So that what comes a second time is resolved, and shows in the sum.
    run(hq, "UPDATE public.t SET n = n + 100000")


@pytest.fixture
def services(
    counter: Directory, own_redis: RedisServer, write_settings: WriteSettings
) -> Iterator[Services]:
    """Workers and beats that find work by their schedules alone."""
    started = Services(write_settings(counter, own_redis.url(), NOT_LISTENING))
    yield started
    started.stop()


def test_in_the_middle_of_a_push(
    counter: Directory, own_redis: RedisServer, services: Services
) -> None:
    hq, jfk = counter["hq"], counter["jfk"]
    first = services.worker(SNAPTIDE_FAULT="push.after_ship:stop")
    beat = services.beat()
    _add(jfk, 1)
    schedules.schedule(jfk, "push", "hq", every="1s")
    with _held_still(first, jfk, PUSHING):
        lose(own_redis)
        beat.kill()
        services.beat()
        services.beat()
        second = services.worker()
        _add(jfk, 2)
        _wait_for_runs(second, "deferred.tasks.push")
        # Whoever is asked meanwhile leaves it to the one that is at work.
        assert run(hq, SUM) == [(100000,)]
    eventually(lambda: queued(jfk) == 0, what="the queue to be empty")
    assert run(hq, SUM) == [(100003,)]


def test_in_the_middle_of_a_refresh(
    counter: Directory, own_redis: RedisServer, services: Services
) -> None:
    hq, jfk = counter["hq"], counter["jfk"]
    first = services.worker(SNAPTIDE_FAULT="refresh.after_stage:stop")
    beat = services.beat()
    before = run(jfk, REFRESHED)
    schedules.schedule(jfk, "refresh", "t", every="1s")
    with _held_still(first, jfk, REFRESHING):
        lose(own_redis)
        beat.kill()
        services.beat()
        second = services.worker()
        _add(jfk, 1)
        run(hq, "UPDATE public.t SET n = n + 1000")
        _wait_for_runs(second, "snapshots.tasks.refresh")
        assert run(jfk, REFRESHED) == before
    eventually(lambda: run(jfk, SUM) == [(101001,)], seconds=120, what="the sum")
    assert run(hq, SUM) == [(101001,)]


def test_away_for_longer_while_a_task_is_at_work(
    counter: Directory, own_redis: RedisServer, services: Services
) -> None:
    """The worker waits for Redis, and is there when it comes back."""
    hq, jfk = counter["hq"], counter["jfk"]
    worker = services.worker()
    services.beat()
    run(hq, *SLOW)
    with application(hq) as user:
        # A push does not wait for a row that a user keeps for many seconds.
        user.execute("SELECT pg_advisory_lock(1)")
        _add(jfk, 1)
        schedules.schedule(jfk, "push", "hq", every="1s")
        eventually(lambda: run(jfk, PUSHING) != [(0,)], what="the push to begin")
        own_redis.kill()
        worker.wait_for_line("Cannot connect to redis")
    eventually(lambda: queued(jfk) == 0, what="the queue to be empty")
    own_redis.start()
    _add(jfk, 2)
    eventually(lambda: queued(jfk) == 0, what="the queue to be empty again")
    assert run(hq, SUM) == [(100003,)]


def test_schedule_that_changes_while_its_task_runs(
    counter: Directory, services: Services
) -> None:
    hq, jfk = counter["hq"], counter["jfk"]
    worker = services.worker(SNAPTIDE_FAULT="push.after_ship:stop")
    services.beat()
    _add(jfk, 1)
    schedules.schedule(jfk, "push", "hq", every="1s")
    with _held_still(worker, jfk, PUSHING):
        schedules.schedule(jfk, "push", "hq", every="1h")
        # The change itself is due at once; beat asks for it.
        eventually(lambda: run(jfk, FAR) == [(True,)], what="the next hour")
    eventually(lambda: queued(jfk) == 0, what="the queue to be empty")
    eventually(lambda: run(jfk, PUSHING) == [(0,)], what="the push to end")
    # The end of the task has not put the old interval back.
    assert run(jfk, 'SELECT "interval" FROM snaptide.schedule') == [("1h",)]
    assert run(jfk, FAR) == [(True,)]
    assert run(hq, SUM) == [(100001,)]
    _add(jfk, 2)
    schedules.schedule(jfk, "push", "hq", every="1s")
    eventually(lambda: run(hq, SUM) == [(100003,)], what="the second push")


def test_again_and_again_under_writers(
    counter: Directory, own_redis: RedisServer, services: Services
) -> None:
    hq, jfk = counter["hq"], counter["jfk"]
    services.worker()
    beat = services.beat()
    schedules.schedule(jfk, "push", "hq", every="1s")
    schedules.schedule(jfk, "refresh", "t", every="2s")
    writing = threading.Event()
    written: list[int] = []

    def write() -> None:
        # A push applies them one by one, however busy the machine is.
        while not writing.wait(0.2):
            _add(jfk, 1)
            written.append(1)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(2):
            enough = 5 * (number + 1)
            eventually(lambda: len(written) > enough, what="writes")  # noqa: B023
            eventually(lambda: run(hq, SUM) != [(100000,)], what="a push")
            lose(own_redis)
            beat.kill()
            beat = services.beat()
    finally:
        writing.set()
        writer.join()
    eventually(lambda: queued(jfk) == 0, seconds=300, what="the queue to be empty")
    services.stop()
    wait_until_let_go(counter.values())
    settle(jfk)
    assert run(hq, SUM) == [(100000 + len(written),)]
    assert_equal_to_master(jfk)


def lose(redis: RedisServer) -> None:
    """Take Redis away with all its data, and start an empty one."""
    redis.kill()
    redis.start()


def _add(site: Site, amount: int) -> None:
    run(site, f"UPDATE public.t SET n = n + {amount} WHERE id = 1")


@contextmanager
def _held_still(worker: Service, site: Site, locked: str) -> Iterator[None]:
    """A worker stands still in the middle of its work while the block runs."""
    worker.wait_stopped()
    worker.halt()
    try:
        yield
        # It was at work all the time.
        assert run(site, locked) != [(0,)]
    finally:
        worker.go_on()


def _wait_for_runs(worker: Service, task: str) -> None:
    """Wait until a worker was given a task of that name, and has ended it."""
    worker.wait_for_line(f"Task {task}[")
    number = worker.printed().split(f"Task {task}[")[1].split("]")[0]

    def ended() -> bool:
        said = [line for line in worker.printed().splitlines() if number in line]
        return any("succeeded" in line or "raised" in line for line in said)

    eventually(ended, seconds=150, what=f"{task} to end")
