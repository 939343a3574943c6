"""Two workers and a Spark cluster on hosts of their own, while all of it is killed.

A host is a network namespace. Workers, their drivers, executors and Redis go without
notice, and users write at the master and at the sites. Contracts hold, or their breach
is told, and at the end all sites equal the master.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path

import psutil
import pytest
from sqlalchemy import URL

import masters
import snapshots
from benchmarks import spark_cluster
from sites import Directory, Site
from snaptide.embedded import RedisServer
from tests import promised, small_windows
from tests.fix_hosts import Host
from tests.fix_proxy import Proxy
from tests.fix_spark import JAVA_OPTIONS
from tests.fix_worker import Service, Services, WriteSettings, eventually
from tests.let_go import wait_until_let_go
from tests.linked_table import queued, run, scalar
from tests.promised import Promise, Users
from tests.promised_records import Stretch, judge_visible
from tests.stories import assert_equal_to_master, settle

pytestmark = pytest.mark.usefixtures("spark")

#: One that killed workers cannot keep, and some that they can.
PROMISES = [
    Promise(site=f"s{number}", within=within, every=2)
    for number, within in enumerate((10, 40, 90), 1)
]

#: Seconds between two killed workers.
EVERY = 10.0

#: What else is killed, each between two workers.
OTHERS = ("executor", "redis", "driver", "redis")


@pytest.fixture
def sites(pg_version: int) -> Iterator[Directory]:
    with promised.on_a_server(pg_version, PROMISES) as made:
        yield made.all


@pytest.fixture
def cluster(hosts: tuple[Host, ...], tmp_path: Path) -> Iterator[str]:
    """The address of a Spark cluster, whose workers are the other hosts."""
    here, *others = hosts
    with spark_cluster.cluster(
        tmp_path,
        [one.address for one in others],
        master=here.address,
        entering={one.address: one.enter for one in others},
    ) as address:
        yield address


@pytest.fixture
def config(
    sites: Directory,
    own_redis: RedisServer,
    hosts: tuple[Host, ...],
    cluster: str,
    make_proxy: Callable[..., Proxy],
    write_settings: WriteSettings,
) -> Path:
    """Settings for all hosts: servers are reached at this machine's address."""
    at = hosts[0].address
    url = sites["hq"].url.set(drivername="postgresql")
    port = make_proxy(url.render_as_string(hide_password=False), at).port

    def there(url: URL) -> str:
        return url.set(host=at, port=port).render_as_string(hide_password=False)

    with Directory({n: there(site.url) for n, site in sites.items()}) as seen:
        conf = spark_cluster.settings(driver=None) | {
            # Each worker's Spark takes one executor of the two.
            "spark.cores.max": "1",
            "spark.executor.memory": "512m",
            "spark.executor.defaultJavaOptions": JAVA_OPTIONS,
        }
        lines = [f"{json.dumps(n)} = {json.dumps(value)}" for n, value in conf.items()]
        more = [
            f'[spark]\nmaster = "{cluster}"\n[spark.conf]',
            *lines,
            "[worker]\nconcurrency = 2",
        ]
        broker = make_proxy(own_redis.url(), at).url
        return write_settings(seen, broker, "\n".join(more))


class Cluster:
    """Workers at their hosts, and executors; what is killed comes back."""

    def __init__(self, config: Path, hosts: tuple[Host, ...], redis: RedisServer):
        here, *others = hosts
        self.services = [Services(config, host) for host in (here, *others)]
        self.services[0].snaptide("beat")
        self._others = others
        self._redis = redis
        self._folder = config.parent
        self.workers = [self._worker(number) for number in range(len(others))]
        #: when workers, drivers and executors were killed
        self.kills: list[Stretch] = []

    def _worker(self, number: int) -> Service:
        there = self.services[1 + number]
        address = self._others[number].address
        return there.module(
            "tests.small_windows", "--debug", "worker", SPARK_LOCAL_IP=address
        )

    def kill_worker(self, number: int) -> None:
        """Kill a worker with its driver, and start another one at its host."""
        begun = time.time()
        self.workers[number].kill()
        self.kills.append((begun, time.time()))
        self.workers[number] = self._worker(number)

    def kill(self, what: str) -> None:
        """Kill Redis with all its data, or a process of Spark once there is one."""
        if what == "redis":
            self._redis.kill()
            self._redis.start()
            return
        find = {"executor": self._executors, "driver": self._drivers}[what]
        found = eventually(lambda: list(find()), what=f"{what} to start")
        # The oldest is at work; others may still be starting.
        begun, oldest = time.time(), min(found, key=psutil.Process.create_time)
        oldest.kill()
        oldest.wait()
        self.kills.append((begun, time.time()))

    def _executors(self) -> Iterator[psutil.Process]:
        for process in psutil.process_iter(["cwd", "cmdline"]):
            inside = str(process.info["cwd"]).startswith(str(self._folder))
            words = " ".join(process.info["cmdline"] or ())
            if inside and "CoarseGrainedExecutorBackend" in words:
                yield process

    def _drivers(self) -> Iterator[psutil.Process]:
        for worker in self.workers:
            children = psutil.Process(worker.pid).children(recursive=True)
            yield from (one for one in children if one.name() == "java")

    def stop(self) -> None:
        """Stop all workers and beat."""
        for services in self.services:
            services.stop()


@pytest.fixture
def crew(
    config: Path, hosts: tuple[Host, ...], own_redis: RedisServer
) -> Iterator[Cluster]:
    made = Cluster(config, hosts, own_redis)
    yield made
    made.stop()


def test_all_sites_are_equal_and_each_breach_is_told(
    sites: Directory, crew: Cluster, tmp_path: Path
) -> None:
    hq, others = sites["hq"], [sites[one.site] for one in PROMISES]
    users = Users(sites, PROMISES, 1)
    numbers = cycle(range(len(crew.workers)))
    with users.at_work():
        for round_, what in enumerate(OTHERS, 1):
            began = time.monotonic()
            run(hq, _many(PROMISES[-1], round_))
            time.sleep(EVERY / 2)
            crew.kill(what)
            time.sleep(max(0.0, EVERY - (time.monotonic() - began)))
            crew.kill_worker(next(numbers))
        # They all get on, without anybody who helps them.
        counts = {name: len(xids) for name, xids in users.xids.items()}
        for one in PROMISES:
            _wait_until_shown(sites[one.site], one.table, counts[one.site])
    crew.stop()
    masters.look_at_contracts(hq)
    until = time.time()
    for one in PROMISES:
        site, xids = sites[one.site], users.xids[one.site]
        its = judge_visible(hq, site, one, xids, until=until, kills=crew.kills)
        assert its.wrong == []
    wait_until_let_go(sites.values())
    settle(*others)
    assert [queued(site) for site in others] == [0] * len(others)
    assert_equal_to_master(*others)
    assert all(snapshots.check(site).equal for site in others)


def _many(one: Promise, number: int) -> str:
    """More rows than a worker compares itself, and without the users' newest."""
    last = -10_000 * number
    return (
        f"INSERT INTO public.{one.table}"
        f" SELECT {last} - i FROM generate_series(1, {2 * small_windows.MOST}) i"
    )


def _wait_until_shown(site: Site, table: str, count: int) -> None:
    """Wait until a site shows so many changes that users have made at the master."""
    query = f"SELECT count(*) FROM public.{table} WHERE id > 0"
    eventually(
        lambda: scalar(site, query) >= count,
        seconds=150,
        what=f"{count} changes at {site.name}",
    )
