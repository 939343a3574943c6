"""Complete refresh: the first load, and again with nothing and with all changed."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import select, text

import masters
import snapshots
from benchmarks.pairs import Against, Result, Side, alternate
from benchmarks.setting import COLUMNS, create_orders, directory, tidy
from sites import Directory, QualifiedName, transport
from sites.table import describe

ORDERS = QualifiedName("public", "orders")


def run(rows: int) -> list[Result]:
    """Against COPY out and COPY into a table with its primary key."""
    with directory("hq", "jfk") as sites:
        with sites["hq"].begin() as connection:
            create_orders(connection, rows)
        masters.create_snapshot_log(sites["hq"], "orders")
        first = alternate(
            f"first load of {rows:,} rows",
            Side(
                label="complete refresh",
                run=lambda: snapshots.refresh(sites["jfk"], "orders"),
                before=lambda: _anew(sites),
            ),
            Against(
                side=Side(
                    label="COPY out, COPY in",
                    run=lambda: _copy(sites),
                    before=lambda: _empty(sites),
                ),
                bar=1 / 0.75,
            ),
        )
        return [*first, *_again(sites, rows)]


def _again(sites: Directory, rows: int) -> list[Result]:
    """The same snapshot refreshed completely, against a first load."""
    load = Side(
        label="first load",
        run=lambda: snapshots.refresh(sites["jfk"], "orders2"),
        before=lambda: _anew(sites, "orders2"),
    )
    refresh = Side(
        label="nothing changed",
        run=lambda: _complete(sites),
        before=lambda: tidy(sites["jfk"], 'public."snap$_orders"'),
    )
    changed = Side(
        label="all rows changed",
        run=lambda: _complete(sites),
        before=lambda: _change(sites),
    )
    name = f"complete refresh of {rows:,} rows again"
    return [
        *alternate(name, refresh, Against(side=load, bar=1.5), rounds=3),
        *alternate(name, changed, Against(side=load, bar=3.0), rounds=3),
    ]


def _complete(sites: Directory) -> None:
    snapshots.refresh(sites["jfk"], "orders", method="c")


def _change(sites: Directory) -> None:
    with sites["hq"].begin() as connection:
        connection.execute(text("UPDATE public.orders SET qty = qty + 1"))
    masters.purge_snapshot_logs(sites["hq"])
    tidy(sites["hq"], "public.orders")
    tidy(sites["jfk"], 'public."snap$_orders"')


def _anew(sites: Directory, name: str = "orders") -> None:
    if any(s.name == name for s in snapshots.list_snapshots(sites["jfk"])):
        snapshots.drop(sites["jfk"], name)
    snapshots.create(sites["jfk"], name, master="hq", table="orders")
    tidy(sites["jfk"])


def _empty(sites: Directory) -> None:
    with sites["jfk"].begin() as connection:
        connection.execute(text("DROP TABLE IF EXISTS public.bare"))
    tidy(sites["jfk"])


def _copy(sites: Directory) -> None:
    with sites["hq"].begin() as master, sites["jfk"].begin() as site:
        site.execute(text(f"CREATE TABLE public.bare ({COLUMNS})"))
        table = describe(master, ORDERS).sql()
        names = [column.name for column in table.columns]
        bare = sa.table("bare", *map(sa.column, names), schema="public")
        transport.copy(master, select(table), site, bare, names)
