"""The same refresh on Spark's cluster of two workers and in one process.

Two sites have the same snapshot; each is refreshed by a process of its own, as a
process has one session. Both must come to the same rows.
"""

from __future__ import annotations

import itertools
import multiprocessing
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from sqlalchemy import text

import masters
import snapshots
from benchmarks import by_hand, spark_cluster
from benchmarks.pairs import Against, Result, Side, alternate
from benchmarks.setting import create_orders, directory, tidy
from sites import Directory
from sites.configured import Configuration, configure

ALONE, CLUSTER = "jfk", "sfo"

_Refresh = Callable[[], None]

#: One of so many rows is changed.
CHANGED = (3, 2)

_CONTENT = 'SELECT count(*), sum(hashtextextended(t::text, 0)) FROM public."orders" t'


def run(rows: int) -> list[Result]:
    """A third of the rows changed, and half: more than stay in the driver."""
    with ExitStack() as running:
        sites = running.enter_context(directory("hq", ALONE, CLUSTER))
        folder = running.enter_context(tempfile.TemporaryDirectory())
        address = running.enter_context(spark_cluster.cluster(Path(folder)))
        with sites["hq"].begin() as connection:
            create_orders(connection, rows)
        by_hand.prepare_changes(sites)
        masters.create_snapshot_log(sites["hq"], "orders")
        urls = {
            n: s.url.render_as_string(hide_password=False) for n, s in sites.items()
        }
        alone = running.enter_context(_refresher(urls, ALONE, "local[*]", {}))
        cluster = running.enter_context(
            _refresher(urls, CLUSTER, address, spark_cluster.settings())
        )
        for name, refresh in ((ALONE, alone), (CLUSTER, cluster)):
            snapshots.create(sites[name], "orders", master="hq")
            refresh()
        seeds = itertools.count(1)
        return [
            result
            for one_of in CHANGED
            for result in _changed(sites, rows, rows // one_of, seeds, alone, cluster)
        ]


def _changed(
    sites: Directory,
    rows: int,
    changed: int,
    seeds: Iterator[int],
    alone: _Refresh,
    cluster: _Refresh,
) -> list[Result]:
    def before() -> None:
        by_hand.change(sites["hq"], "orders", rows, changed, next(seeds))
        _tidy(sites)

    name = f"scale-out: refresh of {changed:,} of {rows:,} rows"
    found = _compared(name, alone, cluster, before)
    _same(sites)
    return found


def _compared(
    name: str, alone: _Refresh, cluster: _Refresh, before: _Refresh
) -> list[Result]:
    """The change is made once a round, before the first of the two."""
    return alternate(
        name,
        Side(
            label=f"{spark_cluster.WORKERS} workers",
            run=cluster,
            before=before,
        ),
        Against(side=Side(label="local[*]", run=alone)),
        rounds=3,
    )


def _same(sites: Directory) -> None:
    """Both sites, and the master, hold the same rows."""
    found = []
    for site in sites.values():
        with site.connect() as connection:
            found.append(connection.execute(text(_CONTENT)).one())
    assert found[0] == found[1] == found[2], found


def _tidy(sites: Directory) -> None:
    masters.purge_snapshot_logs(sites["hq"])
    tidy(sites["hq"], "public.orders")
    for name in (ALONE, CLUSTER):
        tidy(sites[name], 'public."snap$_orders"')


@contextmanager
def _refresher(
    urls: Mapping[str, str], name: str, master: str, settings: Mapping[str, str]
) -> Iterator[_Refresh]:
    """A process that refreshes a site whenever it is told to."""
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    process = spawn.Process(target=_serve, args=(there, urls, name, master, settings))
    process.start()
    there.close()

    def refresh() -> None:
        here.send("refresh")
        error = here.recv()
        if error:
            raise RuntimeError(error)

    try:
        yield refresh
    finally:
        here.close()
        process.join()


def _serve(
    orders: Connection,
    urls: Mapping[str, str],
    name: str,
    master: str,
    settings: Mapping[str, str],
) -> None:
    sites = Directory(urls)
    configure(
        Configuration(directory=sites, spark_master=master, spark_conf=dict(settings))
    )
    while True:
        try:
            orders.recv()
        except EOFError:
            return
        try:
            snapshots.refresh(sites[name], "orders")
            orders.send("")
        except Exception as error:
            orders.send(repr(error))
