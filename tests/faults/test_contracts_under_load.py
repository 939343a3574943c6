"""Contracts of many sites while workers, beat and Redis are killed.

No breach is untold, and none is told that was none. The test knows what sites show: it
writes rows of its own at the master, and looks when each site shows them.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from random import Random

import pytest

import masters
from sites import Directory
from snaptide.embedded import RedisServer
from tests import promised
from tests.fix_worker import Service, Services, WriteSettings
from tests.promised import Promise, Told, Users
from tests.seeds import seed

log = logging.getLogger(__name__)

pytestmark = [pytest.mark.faults, pytest.mark.usefixtures("java_home")]

SITES = 20
#: Seconds of load; `make soak KIND=contracts MINUTES=30` has more of them.
SECONDS = float(os.environ.get("SNAPTIDE_CONTRACTS_SECONDS", "60"))
VICTIMS = ("worker", "beat", "redis")


@pytest.fixture
def chance(caplog: pytest.LogCaptureFixture) -> Random:
    """It says its seed, of which only the kills and limits are the same again."""
    caplog.set_level(logging.INFO, __name__)
    begun = seed("SNAPTIDE_CONTRACTS_SEED")
    log.info("SNAPTIDE_CONTRACTS_SEED=%d", begun)
    return Random(begun)


@pytest.fixture
def promises(chance: Random) -> list[Promise]:
    return promised.promises(SITES, chance)


@pytest.fixture
def sites(pg_version: int, promises: list[Promise]) -> Iterator[Directory]:
    """All of them on one server, with sessions for all."""
    with promised.on_a_server(pg_version, promises, max_connections="500") as made:
        yield made


@pytest.fixture
def services(
    sites: Directory, own_redis: RedisServer, write_settings: WriteSettings
) -> Iterator[Services]:
    more = "[worker]\nconcurrency = 2\n"
    started = Services(write_settings(sites, own_redis.url(), more))
    yield started
    started.stop()


class Crew:
    """A worker and a beat; who is killed comes back, as a supervisor has it."""

    def __init__(self, services: Services, redis: RedisServer) -> None:
        self._services = services
        self._redis = redis
        self._worker = services.worker()
        self._beat = services.beat()
        #: when workers were killed
        self.kills: list[float] = []

    def crash(self, victim: str) -> None:
        """Kill one, and start it again."""
        if victim == "worker":
            self.kills.append(time.time())
            self._worker = _replaced(self._worker, self._services.worker)
        elif victim == "beat":
            self._beat = _replaced(self._beat, self._services.beat)
        else:
            self._redis.kill()
            self._redis.start()


def test_each_breach_is_told_and_no_other(
    sites: Directory,
    promises: list[Promise],
    services: Services,
    own_redis: RedisServer,
    chance: Random,
) -> None:
    hq = sites["hq"]
    crew, told = Crew(services, own_redis), Told(hq, promises)
    users = Users(sites, promises, chance.randrange(10**9))
    with users.at_work():
        ends = time.monotonic() + SECONDS
        while time.monotonic() < ends:
            time.sleep(chance.uniform(5, 15))
            crew.crash(chance.choice(VICTIMS))
            told.hear()
        # A refresh that the worker finishes while it stops may end a breach.
        services.stop()
        masters.look_at_contracts(hq)
        until = time.time()
    told.hear()
    found = [
        promised.judged(
            one, users.truth[one.site], told.late(one.site), until, crew.kills
        )
        for one in promises
    ]
    counts = [sum(numbers) for numbers in zip(*(one[0] for one in found), strict=True)]
    log.info("%d breaches, %d times told", *counts)
    wrong = [said for _, its in found for said in its]
    assert not wrong, "\n".join(wrong)
    assert all(counts)


def _replaced(service: Service, start: Callable[[], Service]) -> Service:
    service.kill()
    return start()
