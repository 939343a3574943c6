"""The same refresh on Spark's cluster of two workers and in one process.

Two sites have the same snapshot; each is refreshed by a process of its own, as a
process has one session. Both must come to the same rows.
"""

from __future__ import annotations

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

#: Which parts of the rows change. Fewer than 250,000 never leave the driver.
PARTS = (2,)

ALONE, CLUSTER = "jfk", "sfo"

_Refresh = Callable[[str], None]
_Before = Callable[[], None]

_CONTENT = 'SELECT count(*), sum(hashtextextended(t::text, 0)) FROM public."orders" t'


def run(rows: int) -> list[Result]:
    """Half of the rows changed, and all of them compared."""
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
            refresh("?")
        results = []
        for part in PARTS:
            results += _changed(sites, rows, rows // part, alone, cluster)
        return [*results, *_all(sites, rows, alone, cluster)]


def _changed(
    sites: Directory, rows: int, changed: int, alone: _Refresh, cluster: _Refresh
) -> list[Result]:
    seeds = iter(range(1, 1000))

    def before() -> None:
        by_hand.change(sites["hq"], "orders", rows, changed, next(seeds))
        _tidy(sites)

    name = f"scale-out: refresh of {changed:,} of {rows:,} rows"
    found = _compared(name, alone, cluster, "?", before)
    _same(sites)
    return found


def _all(
    sites: Directory, rows: int, alone: _Refresh, cluster: _Refresh
) -> list[Result]:
    name = f"scale-out: complete refresh of {rows:,} rows"
    found = _compared(name, alone, cluster, "c", lambda: _tidy(sites))
    _same(sites)
    return found


def _compared(
    name: str, alone: _Refresh, cluster: _Refresh, method: str, before: _Before
) -> list[Result]:
    """The change is made once a round, before the first of the two."""
    return alternate(
        name,
        Side(
            label=f"{spark_cluster.WORKERS} workers",
            run=lambda: cluster(method),
            before=before,
        ),
        Against(side=Side(label="local[*]", run=lambda: alone(method))),
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
    """A process that refreshes a site whenever it is told a method."""
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    process = spawn.Process(target=_serve, args=(there, urls, name, master, settings))
    process.start()
    there.close()

    def refresh(method: str) -> None:
        here.send(method)
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
            method = orders.recv()
        except EOFError:
            return
        try:
            snapshots.refresh(sites[name], "orders", method=method)
            orders.send("")
        except Exception as error:
            orders.send(repr(error))
