"""A worker stands still for longer than the broker waits for it, and then goes on."""

from collections.abc import Callable, Iterator

import pytest
from redis import Redis

from sites import Directory
from snaptide.application import PUSH, celery_app, enqueue
from snaptide.settings import Settings
from tests.fix_worker import NOT_LISTENING, Service, Services, eventually
from tests.let_go import END_LOCKS
from tests.linked_table import as_refresh, link, parked, queued, rows, run

COUNT_UP = "UPDATE orders SET qty = qty + 1"
#: A session of ours that has locked the marker.
IN_MID_PUSH = """
SELECT a.pid FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.relation = 'snaptide.push_marker'::regclass AND l.mode = 'RowShareLock'
  AND a.datname = current_database() AND a.pid <> pg_backend_pid()
"""
END = "SELECT pg_terminate_backend(pid, 90000) FROM pg_stat_activity WHERE "


@pytest.fixture
def orders(sites: Directory) -> Directory:
    """Three transactions are queued that add up: what comes twice would show."""
    link(sites)
    for site in sites.values():
        as_refresh(site, "INSERT INTO orders VALUES (1, 'a', 0), (2, 'b', 0)")
    for _ in range(3):
        run(sites["jfk"], COUNT_UP)
    return sites


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


@pytest.fixture
def stalled(orders: Directory, services: Services, ask, broker: str) -> Service:
    """A worker that was stopped in mid-push, and whose task is another's by now."""
    worker = services.worker(
        SNAPTIDE_FAULT="push.after_apply:stop:2",
        # Each transaction by itself, so that there is something between two.
        SNAPTIDE_PUSH__GROUP_MAX_CALLS="0",
    )
    ask()
    worker.wait_stopped()
    # Between its first commit and its second.
    assert rows(orders["hq"])[0][2] == 1
    worker.halt()
    with Redis.from_url(broker) as redis:
        [task] = redis.zrange("unacked_index", 0, -1)
        # As if the visibility timeout were over.
        redis.zadd("unacked_index", {task: 0})
    return worker


def test_another_leaves_its_work_to_it(
    orders: Directory, services: Services, stalled: Service
) -> None:
    """Its session at the site holds the pusher's lock: nobody else pushes."""
    other = services.worker()
    other.wait_for_line("succeeded")
    assert queued(orders["jfk"]) == 3
    stalled.go_on()
    _assert_counted_once(orders)


def test_another_does_its_work(
    orders: Directory, services: Services, stalled: Service, ask
) -> None:
    """Its sessions were ended, as when its machine was taken for dead."""
    run(orders["hq"], END + "pid IN (" + IN_MID_PUSH + ")")
    run(orders["jfk"], END_LOCKS)
    run(orders["jfk"], COUNT_UP)
    services.worker()
    # A task that is taken back from a worker which stands still may vanish from Redis.
    ask()
    eventually(lambda: queued(orders["jfk"]) <= 1, what="the work to be done")
    stalled.go_on()
    # The task that it has not acknowledged fails there, is asked for again, and ends.
    _assert_counted_once(orders, times=4)


def _assert_counted_once(sites: Directory, times: int = 3) -> None:
    jfk, hq = sites["jfk"], sites["hq"]
    eventually(lambda: queued(jfk) == 0, seconds=120, what="the queue to be empty")
    assert [row[2] for row in rows(hq)] == [times, times]
    assert parked(hq) == []
