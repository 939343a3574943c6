"""Contracts of many sites while workers, beats and Redis are killed.

No breach is untold, and none is told that was none, by what the databases themselves
have noted: a master knows what it has heard of, and a site what it was answered. That
they hear of it in time is judged by order, without seconds of allowance. To two of the
sites their rows are granted: one reads, one pushes as well.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

import masters
import snapshots
from sites import Site
from snaptide.embedded import RedisServer
from tests import promised
from tests.fix_worker import NOT_LISTENING, Service, Services, WriteSettings
from tests.promised import Promise, Sites, Users
from tests.promised_records import Judged, Stretch, judge_answered, judge_visible
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
def sites(pg_version: int, promises: list[Promise]) -> Iterator[Sites]:
    """All of them on one server, with sessions for all."""
    with promised.on_a_server(pg_version, promises, max_connections="500") as made:
        yield made


class Crew:
    """A worker and a beat; who is killed comes back, as a supervisor has it."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._beat = services.beat()
        self._worker = services.worker()

    def crash(self, victim: str) -> None:
        """Kill one of both, and start it again."""
        if victim == "worker":
            self._worker = _replaced(self._worker, self._services.worker)
        else:
            self._beat = _replaced(self._beat, self._services.beat)

    def stop(self) -> None:
        """Stop both in good order."""
        self._services.stop()


@pytest.fixture
def crews(
    sites: Sites,
    own_redis: RedisServer,
    write_settings: WriteSettings,
    tmp_path: Path,
) -> Iterator[list[Crew]]:
    """One for the ordinary sites, and one for each that was granted its rows."""
    started = []
    for number, directory in enumerate(sites.apart):
        more = f"{NOT_LISTENING}concurrency = 2\n"
        written = write_settings(directory, own_redis.url(number), more)
        folder = tmp_path / f"crew-{number}"
        folder.mkdir()
        started.append(Services(written.rename(folder / written.name)))
    try:
        with ThreadPoolExecutor() as pool:
            found = [*pool.map(Crew, started)]
        yield found
    finally:
        for one in started:
            one.stop()


def test_each_breach_is_told_and_no_other(
    sites: Sites,
    promises: list[Promise],
    crews: list[Crew],
    own_redis: RedisServer,
    chance: Random,
) -> None:
    hq, every = sites.all["hq"], [sites.all[one.site] for one in promises]
    users = Users(sites.all, promises, chance.randrange(10**9))
    kills: list[Stretch] = []
    with users.at_work():
        ends = time.monotonic() + SECONDS
        while time.monotonic() < ends:
            time.sleep(chance.uniform(5, 15))
            _look_at_answers(every)
            begun = time.time()
            victim = chance.choice(VICTIMS)
            if victim == "redis":
                own_redis.kill()
                own_redis.start()
            else:
                chance.choice(crews).crash(victim)
            kills.append((begun, time.time()))
            _look_at_answers(every)
    with ThreadPoolExecutor() as pool:
        list(pool.map(Crew.stop, crews))
    _look_at_answers(every)
    masters.look_at_contracts(hq)
    until = time.time()
    found = []
    for one, site in zip(promises, every, strict=True):
        xids = users.xids[one.site]
        found.append(judge_visible(hq, site, one, xids, until=until, kills=kills))
        if one.answered is not None:
            found.append(judge_answered(hq, site, one, one.answered))
    _judge(found)


def _look_at_answers(sites: Sequence[Site]) -> None:
    for site in sites:
        snapshots.look_at_answers(site)


def _judge(found: Sequence[Judged]) -> None:
    wrong = [said for one in found for said in one.wrong]
    assert not wrong, "\n".join(wrong)
    for kind in sorted({one.kind for one in found}):
        breaches = sum(one.breaches for one in found if one.kind == kind)
        told = sum(one.told for one in found if one.kind == kind)
        log.info("%s: %d breaches, told %d times", kind, breaches, told)
        assert breaches
        assert told


def _replaced(service: Service, start: Callable[[], Service]) -> Service:
    service.kill()
    return start()
