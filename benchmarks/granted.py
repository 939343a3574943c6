"""Refreshes and pushes of a site by a grant, against those of a site without one.

Each has a store of one table: the first by policies of the master, the other by the
condition of its snapshot, as a superuser, whom no policy binds.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import text

import deferred
import masters
import snapshots
from benchmarks.pairs import Against, Result, Side, alternate
from benchmarks.setting import directory, tidy
from sites import Directory, Site

#: Rows that change in each round, and transactions that change one row each.
CHANGED = 1_000
SMALL = 100
#: Stores: the granted site's, the other's, and those of nobody.
STORES = 10
GRANTED, PLAIN = 3, 4

_TABLE = (
    "CREATE TABLE public.sale (id int PRIMARY KEY, store_id int NOT NULL, qty int,"
    " note text)"
)
_ROWS = (
    "INSERT INTO public.sale SELECT g, g % 10, 0, md5(cast(g AS text))"
    " FROM generate_series(1, :rows) g"
)
_LOGIN = "jfk"
_CHANGE = (
    "UPDATE public.sale SET qty = qty + 1 WHERE id IN (SELECT id FROM public.sale"
    " WHERE store_id = :store ORDER BY hashint4(id + :seed) LIMIT :count)"
)


def run(rows: int) -> list[Result]:
    """What a grant costs refreshes, pushes of many rows, and of small transactions."""
    with directory("hq", "jfk", "lga") as sites, _granted(sites, rows) as granted:
        plain, seeds = sites["lga"], itertools.count(1)
        results: list[Result] = []
        for what, before, work in (
            (f"refresh of {CHANGED:,} changed rows", _at_master, _refresh),
            (f"push of {CHANGED:,} changed rows", _at_site, deferred.push),
            (f"push of {SMALL} small transactions", _small, deferred.push),
        ):
            sides = [
                _side(sites["hq"], site, store, seeds, before, work)
                for site, store in ((granted, GRANTED), (plain, PLAIN))
            ]
            against = Against(side=sides[1], bar=1.05)
            results += alternate(f"grant: {what}", sides[0], against, rounds=11)
        return results


def _side(
    hq: Site,
    site: Site,
    store: int,
    seeds: Iterator[int],
    before: Callable[[Site, Site, int, int], None],
    work: Callable[[Site], object],
) -> Side:
    def prepare() -> None:
        _refresh(site)
        before(hq, site, store, next(seeds))
        masters.purge_snapshot_logs(hq)
        tidy(hq, "public.sale")
        tidy(site, 'public."snap$_sale"')

    label = "with a grant" if store == GRANTED else "without"
    return Side(label=label, run=lambda: work(site), before=prepare)


def _refresh(site: Site) -> object:
    return snapshots.refresh(site, "sale", push_deferred_rpc=False)


def _at_master(hq: Site, site: Site, store: int, seed: int) -> None:
    _change(hq, store, seed, CHANGED)


def _at_site(hq: Site, site: Site, store: int, seed: int) -> None:
    _change(site, store, seed, CHANGED)


def _small(hq: Site, site: Site, store: int, seed: int) -> None:
    for number in range(SMALL):
        _change(site, store, seed * SMALL + number, 1)


def _change(at: Site, store: int, seed: int, count: int) -> None:
    with at.begin() as connection:
        values = {"store": store, "seed": seed, "count": count}
        connection.execute(text(_CHANGE), values)


@contextmanager
def _granted(sites: Directory, rows: int) -> Iterator[Site]:
    """Make both snapshots, and return the site that has the grant, as its login."""
    hq = sites["hq"]
    with hq.begin() as connection:
        connection.execute(text(_TABLE))
        connection.execute(text(_ROWS), {"rows": rows})
        for statement in (
            "CREATE INDEX ON public.sale (store_id)",
            "ANALYZE public.sale",
            f"CREATE ROLE {_LOGIN} LOGIN PASSWORD '{_LOGIN}'",
            "REVOKE TEMPORARY ON DATABASE hq FROM PUBLIC",
            f"GRANT TEMPORARY ON DATABASE hq TO {_LOGIN}",
        ):
            connection.execute(text(statement))
    masters.create_snapshot_log(hq, "sale", partition_columns=["store_id"])
    where = {"sale": "store_id = :store"}
    masters.create_publication(hq, "sales", ["sale"], where=where)
    values = {"store": str(GRANTED)}
    masters.grant(hq, "sales", "jfk", parameters=values, updatable=True)
    url = hq.url.set(username=_LOGIN, password=_LOGIN)
    with Directory({"hq": url, "jfk": sites["jfk"].url}) as directory_:
        granted = directory_["jfk"]
        snapshots.create(granted, "sale", master="hq", updatable=True)
        snapshots.create(
            sites["lga"],
            "sale",
            master="hq",
            where=f"store_id = {PLAIN}",
            updatable=True,
        )
        for site in (granted, sites["lga"]):
            _refresh(site)
        yield granted
