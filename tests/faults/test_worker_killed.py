"""A real Celery worker dies of kill -9 in the middle of a push; a new one goes on."""

import time
from collections.abc import Callable, Iterator

import pytest
from redis import Redis

import deferred
from sites import Directory, Site
from snaptide.application import PUSH, celery_app, enqueue
from snaptide.settings import Settings
from tests.fix_moments import Moments
from tests.fix_worker import NOT_LISTENING, Services, eventually
from tests.fix_worlds import prepared_once
from tests.let_go import wait_until_let_go
from tests.linked_table import queued, run
from tests.pushing import push_without_turns
from tests.stories import adding_up, assert_equal_to_master, settle

pytestmark = pytest.mark.usefixtures("spark")

SUM = "SELECT sum(n)::int FROM public.t"


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    """An updatable snapshot of numbers that add up: what comes twice would show."""
    hq, jfk = sites["hq"], sites["jfk"]
    adding_up(hq, jfk, 20)
    # So that every transaction is one that has to be resolved, by addition.
    run(hq, "UPDATE public.t SET n = n + 100")


@pytest.fixture
def counters(sites: Directory) -> Directory:
    return sites


def count_up(jfk: Site, times: int) -> None:
    for _ in range(times):
        run(jfk, "UPDATE public.t SET n = n + 1")


@pytest.fixture
def more_settings() -> str:
    """Workers push in tasks alone."""
    return NOT_LISTENING


@pytest.fixture
def ask(services: Services) -> Iterator[Callable[[], object]]:
    """Ask the workers for a push."""
    app = celery_app(Settings.load(services.config))
    yield lambda: enqueue(app, PUSH, "jfk", "hq")
    app.close()


def test_killed_in_mid_push(counters: Directory, services: Services, ask) -> None:
    hq, jfk = counters["hq"], counters["jfk"]
    count_up(jfk, 3)
    for fault in (
        "push.after_ship:kill",
        "push.after_apply:kill:2",
        "push.after_commit:kill",
        "push.before_mark:kill",
    ):
        worker = services.worker(SNAPTIDE_FAULT=fault)
        ask()
        worker.wait_killed()
        wait_until_let_go(counters.values())
        run(jfk, "UPDATE public.t SET n = n + 1")
    assert queued(jfk) > 0
    services.worker()
    ask()
    eventually(lambda: queued(jfk) == 0, what="the queue to be empty")
    # 7 transactions of 20 rows, and what the master added itself.
    assert run(hq, SUM) == [(2000 + 7 * 20,)]
    settle(jfk)
    assert_equal_to_master(jfk)


def test_task_of_a_killed_worker_is_given_to_another(
    counters: Directory, services: Services, broker: str, ask
) -> None:
    hq, jfk = counters["hq"], counters["jfk"]
    count_up(jfk, 2)
    worker = services.worker(SNAPTIDE_FAULT="push.after_commit:kill")
    ask()
    worker.wait_killed()
    wait_until_let_go(counters.values())
    with Redis.from_url(broker) as redis:
        tasks = redis.zrange("unacked_index", 0, -1)
        assert len(tasks) == 1
        # As if the visibility timeout were over.
        redis.zadd("unacked_index", {tasks[0]: 0})
    # Nobody asks again: the task that nobody acknowledged is given to the next.
    services.worker()
    eventually(lambda: queued(jfk) == 0, what="the queue to be empty")
    assert run(hq, SUM) == [(2000 + 2 * 20,)]


def test_task_delivered_twice_at_once(
    counters: Directory, services: Services, ask
) -> None:
    hq, jfk = counters["hq"], counters["jfk"]
    services.worker()
    services.worker()
    for _ in range(5):
        count_up(jfk, 4)
        ask()
        ask()

    def emptied() -> bool:
        # A task that finds another pusher ends, however soon that one ends as well.
        ask()
        time.sleep(0.5)
        return queued(jfk) == 0

    eventually(emptied, what="the queue to be empty")
    assert run(hq, SUM) == [(2000 + 20 * 20,)]
    settle(jfk)
    assert_equal_to_master(jfk)


def test_pushers_that_do_not_know_of_each_other(
    counters: Directory, moments: Moments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the lock that keeps them apart, the marker alone makes it once."""
    hq, jfk = counters["hq"], counters["jfk"]
    push_without_turns(monkeypatch)
    for point in (
        "push.after_cut",
        "push.after_ship",
        "push.after_commit",
        "push.before_mark",
    ):
        count_up(jfk, 3)
        # Another one delivers everything while the first is at this point.
        moments.at(point, lambda: deferred.push(jfk))
        deferred.push(jfk)
        assert point in moments.reached
        assert queued(jfk) == 0
    assert run(hq, SUM) == [(2000 + 4 * 3 * 20,)]
    settle(jfk)
    assert_equal_to_master(jfk)
