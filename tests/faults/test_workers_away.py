"""No worker takes a site's tasks for a while: what beat asks for does not add up."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deferred import schedules
from sites import Directory
from snaptide import broker
from snaptide.application import queue_of
from snaptide.beat import ENOUGH
from snaptide.embedded import RedisServer
from tests.fix_worker import NOT_LISTENING, Service, Services, WriteSettings, eventually
from tests.linked_table import link, queued, run

#: One task for each of two schedules, and some more.
MOST = ENOUGH + 2


@pytest.fixture
def linked(sites: Directory) -> Directory:
    """Both sites have a purge every second, and jfk a push."""
    link(sites, "t", "id int PRIMARY KEY", with_log=False)
    schedules.schedule(sites["jfk"], "push", "hq", every="1s")
    for site in sites.values():
        schedules.schedule(site, "purge", every="1s")
    return sites


@pytest.fixture
def services(
    linked: Directory, own_redis: RedisServer, write_settings: WriteSettings
) -> Iterator[Services]:
    started = Services(write_settings(linked, own_redis.url(), NOT_LISTENING))
    yield started
    started.stop()


def test_tasks_that_no_worker_takes_do_not_add_up(
    linked: Directory, own_redis: RedisServer, services: Services
) -> None:
    jfk = linked["jfk"]
    run(jfk, "INSERT INTO t VALUES (1)")
    services.worker("-Q", queue_of("hq"))
    beat = services.beat()
    eventually(lambda: _waiting(own_redis) >= MOST, what="enough tasks")
    _wait_for_rounds(beat, 5)
    assert _waiting(own_redis) == MOST
    # What is lost is asked for again.
    own_redis.kill()
    own_redis.start()
    eventually(lambda: _waiting(own_redis) >= 2, what="tasks")
    services.worker("-Q", queue_of("jfk"))
    eventually(lambda: queued(jfk) == 0, what="the queue to be empty")
    assert run(linked["hq"], "SELECT id FROM t") == [(1,)]
    for what in ("purge jfk *", "push jfk hq"):
        _wait_for_asked(beat, what, _asked(beat, what) + 3)
    assert _waiting(own_redis) < MOST


def _waiting(redis: RedisServer) -> int:
    """How many tasks of jfk no worker has taken."""
    return broker.waiting(redis.url(), queue_of("jfk"))


def _asked(beat: Service, what: str) -> int:
    """How often beat has asked for the run of a schedule."""
    return beat.printed().count(f"{what} is due.")


def _wait_for_rounds(beat: Service, rounds: int) -> None:
    """Wait while beat asks for the purge of hq, whose worker is there."""
    _wait_for_asked(beat, "purge hq *", _asked(beat, "purge hq *") + rounds)


def _wait_for_asked(beat: Service, what: str, times: int) -> None:
    eventually(lambda: _asked(beat, what) >= times, what=f"{what}: {times} times")
