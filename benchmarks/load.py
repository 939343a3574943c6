"""Complete refresh: the first load, and again with nothing and with all changed."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import select, text

import masters
import snapshots
from benchmarks.pairs import Result, Side, compared, seconds
from benchmarks.setting import COLUMNS, create_orders, directory, tidy
from sites import Directory, QualifiedName
from sites.tables.table import describe
from sites.transfer import transport

ORDERS = QualifiedName("public", "orders")


def run(rows: int) -> list[Result]:
    """Against COPY out and COPY into a table with its primary key.

    One snapshot is made anew and loaded in each round, another refreshed completely.
    The master records nothing: a complete refresh looks at no log.
    """
    with directory("hq", "jfk") as sites:
        with sites["hq"].begin() as connection:
            create_orders(connection, rows)
        masters.create_snapshot_log(sites["hq"], "orders")
        with sites["hq"].begin() as connection:
            connection.execute(text("ALTER TABLE public.orders DISABLE TRIGGER USER"))
        snapshots.create(sites["jfk"], "orders", master="hq")
        snapshots.refresh(sites["jfk"], "orders")
        load, copy, again, changed = seconds(_sides(sites))
    first = f"first load of {rows:,} rows"
    name = f"complete refresh of {rows:,} rows again"
    return [
        compared(
            first, "complete refresh", "COPY out, COPY in", load, copy, bar=1 / 0.75
        ),
        compared(name, "nothing changed", "first load", again, load, bar=1.5),
        compared(name, "all rows changed", "first load", changed, load, bar=3.0),
    ]


def _sides(sites: Directory) -> list[Side]:
    return [
        Side(
            label="first load",
            run=lambda: snapshots.refresh(sites["jfk"], "anew"),
            before=lambda: anew(sites),
        ),
        Side(
            label="COPY out, COPY in",
            run=lambda: _copy(sites),
            before=lambda: empty(sites),
        ),
        Side(
            label="nothing changed",
            run=lambda: _complete(sites),
            before=lambda: tidy(sites["jfk"], 'public."snap$_orders"'),
        ),
        Side(
            label="all rows changed",
            run=lambda: _complete(sites),
            before=lambda: _change(sites),
        ),
    ]


def _complete(sites: Directory) -> None:
    snapshots.refresh(sites["jfk"], "orders", method="c")


def _change(sites: Directory) -> None:
    with sites["hq"].begin() as connection:
        connection.execute(text("UPDATE public.orders SET qty = qty + 1"))
    tidy(sites["hq"], "public.orders")
    tidy(sites["jfk"], 'public."snap$_orders"')


def anew(sites: Directory) -> None:
    """Make the snapshot that is filled next, in place of the one before."""
    if any(s.name == "anew" for s in snapshots.list_snapshots(sites["jfk"])):
        snapshots.drop(sites["jfk"], "anew")
    snapshots.create(sites["jfk"], "anew", master="hq", table="orders")
    tidy(sites["jfk"])


def empty(sites: Directory) -> None:
    """Drop the table that was copied by hand."""
    with sites["jfk"].begin() as connection:
        connection.execute(text("DROP TABLE IF EXISTS public.bare"))
    tidy(sites["jfk"])


def _copy(sites: Directory) -> None:
    with sites["hq"].transaction() as master, sites["jfk"].transaction() as site:
        site.execute(text(f"CREATE TABLE public.bare ({COLUMNS})"))
        table = describe(master, ORDERS).sql()
        names = [column.name for column in table.columns]
        bare = sa.table("bare", *map(sa.column, names), schema="public")
        transport.copy(master, select(table), site, bare, names)
