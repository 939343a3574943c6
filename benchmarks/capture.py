"""What a writer pays for being captured, at a master and at a site."""

from __future__ import annotations

import threading
from collections.abc import Callable

from sqlalchemy import text

import masters
from benchmarks.pairs import Against, Result, Side, alternate
from benchmarks.setting import create_orders, directory, slow_down, tidy
from sites import Directory, Site
from snapshots import create, refresh

#: Rows of the one big UPDATE, of however many the table has.
UPDATED = 100_000

#: Small transactions of each client.
SINGLES = 300
CLIENTS = 2


def run(rows: int) -> list[Result]:
    """One UPDATE of many rows, and many of one row, with capture and without."""
    with directory("hq", "jfk") as sites:
        for site in sites.values():
            with site.begin() as connection:
                create_orders(connection, rows, "bare")
        with sites["hq"].begin() as connection:
            create_orders(connection, rows)
            create_orders(connection, rows, "divided")
        masters.create_snapshot_log(sites["hq"], "orders")
        masters.create_snapshot_log(
            sites["hq"], "divided", partition_columns=["region"]
        )
        create(sites["jfk"], "orders", master="hq", updatable=True)
        refresh(sites["jfk"], "orders")
        results = [
            *_many(sites, "hq", "a snapshot log", bar=1.6),
            *_many(sites, "jfk", "an updatable snapshot", bar=2.2),
            *_divided(sites["hq"]),
            *_singles_of_all(sites),
        ]
        return [*results, *_singles_of_all(sites, slow_down(sites["hq"]))]


def _singles_of_all(sites: Directory, how: str = "") -> list[Result]:
    return [
        *_single(sites, "hq", "a snapshot log", how),
        *_single(sites, "jfk", "an updatable snapshot", how),
    ]


def _many(sites: Directory, name: str, what: str, bar: float) -> list[Result]:
    site = sites[name]
    return alternate(
        f"capture: UPDATE of {UPDATED:,} rows",
        Side(
            label=what,
            run=lambda: _update(site, "orders"),
            before=lambda: _tidy(sites, name),
        ),
        Against(
            side=Side(
                label="plain table",
                run=lambda: _update(site, "bare"),
                before=lambda: _tidy(sites, name),
            ),
            bar=bar,
        ),
        rounds=7,
    )


def _divided(hq: Site) -> list[Result]:
    """What a partition column adds to a snapshot log."""

    def side(label: str, work: Callable[[], None]) -> Side:
        return Side(label=label, run=work, before=lambda: _tidy_log(hq))

    with_one, without = "a partition column", "a snapshot log of keys"
    many = alternate(
        f"capture: UPDATE of {UPDATED:,} rows",
        side(with_one, lambda: _update(hq, "divided")),
        Against(side=side(without, lambda: _update(hq, "orders")), bar=1.1),
        rounds=7,
    )
    single = alternate(
        f"capture: {CLIENTS} clients, one row a transaction",
        side(with_one, lambda: _together(lambda n: _singles(hq, "divided", n))),
        Against(
            side=side(without, lambda: _together(lambda n: _singles(hq, "orders", n))),
            bar=1.1,
        ),
        rounds=9,
    )
    return [*many, *single]


def _tidy_log(hq: Site) -> None:
    masters.purge_snapshot_logs(hq)
    tidy(hq, "public.orders", "public.divided")


def _single(sites: Directory, name: str, what: str, how: str) -> list[Result]:
    """93 of 100 transactions in the same time are 1.075 times the time of each."""
    site = sites[name]
    return alternate(
        f"capture: {CLIENTS} clients, one row a transaction{how}",
        Side(
            label=what,
            run=lambda: _together(lambda client: _singles(site, "orders", client)),
            before=lambda: _tidy(sites, name),
        ),
        Against(
            side=Side(
                label="plain table",
                run=lambda: _together(lambda client: _singles(site, "bare", client)),
                before=lambda: _tidy(sites, name),
            ),
            bar=1 / 0.93,
        ),
        rounds=9,
    )


def _update(site: Site, table: str) -> None:
    with site.begin() as connection:
        connection.execute(
            text(f"UPDATE public.{table} SET qty = qty + 1 WHERE id <= {UPDATED}")
        )


def _singles(site: Site, table: str, client: int) -> None:
    change = text(f"UPDATE public.{table} SET qty = qty + 1 WHERE id = :id")
    with site.connect() as connection:
        for n in range(SINGLES):
            connection.execute(change, {"id": n * CLIENTS + client + 1})
            connection.commit()


def _together(work: Callable[[int], None]) -> None:
    clients = [threading.Thread(target=work, args=(n,)) for n in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()


def _tidy(sites: Directory, name: str) -> None:
    """Calls that stand in a queue cost a writer nothing; they are left there."""
    if name == "jfk":
        tidy(sites["jfk"], 'public."snap$_orders"', "public.bare")
    else:
        masters.purge_snapshot_logs(sites["hq"])
        tidy(sites["hq"], "public.orders", "public.bare")
