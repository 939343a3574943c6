"""The master of many sites is away for a while.

They try again at moments of their own, not more often the more is asked for meanwhile,
and nothing is lost.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from deferred import schedules
from sites import Directory
from snaptide.embedded import RedisServer
from tests.fix_proxy import Proxy
from tests.fix_worker import NOT_LISTENING, Service, Services, WriteSettings, eventually
from tests.linked_table import link, queued, run

log = logging.getLogger(__name__)

NAMES = tuple(f"s{number:02}" for number in range(1, 21))
COLUMNS = "id int PRIMARY KEY, n int"

#: As many threads as sites: no push waits for the end of another one.
MORE = f"{NOT_LISTENING}concurrency = {len(NAMES)}\n"

#: What beat prints whenever it asks for a push.
DUE = " hq is due."


@pytest.fixture
def twenty(make_sites: Callable[..., Directory]) -> Directory:
    """hq, and the sites, each with a table whose changes go there every second."""
    sites = make_sites("hq", *NAMES)
    for name in NAMES:
        link(sites, name, COLUMNS, origin=name, with_log=False)
        schedules.schedule(sites[name], "push", "hq", every="1s")
    return sites


@pytest.fixture
def proxy(twenty: Directory, make_proxy: Callable[[str], Proxy]) -> Proxy:
    """The network between the worker and hq."""
    url = twenty["hq"].url.set(drivername="postgresql")
    return make_proxy(url.render_as_string(hide_password=False))


@pytest.fixture
def services(
    twenty: Directory,
    proxy: Proxy,
    own_redis: RedisServer,
    write_settings: WriteSettings,
) -> Iterator[Services]:
    urls = {name: site.url for name, site in twenty.items()}
    through = Directory({**urls, "hq": proxy.url})
    started = Services(write_settings(through, own_redis.url(), MORE))
    yield started
    started.stop()


def test_sites_come_back_when_they_like(
    twenty: Directory, proxy: Proxy, services: Services
) -> None:
    worker, beat = services.worker(), services.beat()
    write(twenty, 1)
    wait_for_all(twenty, 1)
    began, asked = time.monotonic(), beat.printed().count(DUE)
    proxy.refusing = True
    proxy.cut()
    write(twenty, 2)
    enough = asked + 10 * len(NAMES)
    eventually(lambda: beat.printed().count(DUE) >= enough, what="ten rounds")
    away = [at for at in proxy.arrivals if at >= began]
    proxy.refusing = False
    wait_for_all(twenty, 2)
    services.stop()
    waits = pauses(worker)
    log.info("%d attempts, pauses: %s", len(away), sorted(waits))
    # Schedules leave a master alone that is away; only retries come, more and more
    # rarely.
    assert len(NAMES) <= len(away) < 10 * len(NAMES)
    whole = [one for one in waits if one == round(one)]
    assert len(whole) < len(waits) / 10


def write(sites: Directory, number: int) -> None:
    """Add a row at each site."""
    for name in NAMES:
        run(sites[name], f"INSERT INTO {name} VALUES ({number}, 0)")


def wait_for_all(sites: Directory, number: int) -> None:
    """Wait until hq has so many rows of each site."""
    count = " + ".join(f"(SELECT count(*) FROM {name})" for name in NAMES)
    found = partial(run, sites["hq"], f"SELECT {count}")
    wanted = [(number * len(NAMES),)]
    eventually(lambda: found() == wanted, what=f"{wanted} rows")
    for name in NAMES:
        eventually(partial(has_sent_all, sites, name), what=f"no queue at {name}")


def has_sent_all(sites: Directory, name: str) -> bool:
    return queued(sites[name]) == 0


def pauses(worker: Service) -> list[float]:
    """How long failed tasks waited until they were tried again, in seconds."""
    return [float(one) for one in re.findall(r"Retry in ([\d.]+)s", worker.printed())]
