"""A column that comes to a snapshot in use, and users who write meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import sqlalchemy as sa
from sqlalchemy import text

import masters
import snapshots
from benchmarks.pairs import Against, Result, Side, alternate, compared
from benchmarks.setting import create_orders, directory, tidy
from sites import Directory
from sites.transfer import transport

#: Writes of users a second at the site, and how long one may take.
WRITES, LONGEST = 50, 0.1

ROUNDS = 3

_BASE = 'public."snap$_orders"'


def run(rows: int) -> list[Result]:
    """Fill a column of all rows; by hand: COPY of key and column, and one UPDATE."""
    with directory("hq", "jfk") as sites:
        _create(sites, rows)
        numbers = count()
        columns = [f"note{next(numbers)}"]

        def come() -> None:
            columns[0] = f"note{next(numbers)}"
            _add(sites, columns[0])

        def alter() -> None:
            report = snapshots.alter_columns(sites["jfk"], "orders", add=columns)
            # Beside users, some are left to the next refresh.
            assert report.filled is not None
            assert report.filled > rows * 0.99, report

        alone = alternate(
            f"column: {rows:,} rows filled",
            Side(label="snapshot alter --add-column", run=alter, before=come),
            Against(
                side=Side(
                    label="COPY of key and column, UPDATE",
                    run=lambda: _fill_by_hand(sites, columns[0]),
                    before=lambda: _prepare_by_hand(sites, columns[0]),
                ),
                bar=1.3,
            ),
            rounds=ROUNDS,
        )
        come()
        with _writers(sites) as took:
            alter()
        longest = compared(
            "column: the longest write of a user meanwhile",
            f"{WRITES} writes a second",
            f"{LONGEST:g} s",
            [max(took)],
            [LONGEST],
            bar=1.0,
        )
        return [*alone, longest]


def _create(sites: Directory, rows: int) -> None:
    with sites["hq"].begin() as connection:
        create_orders(connection, rows)
    masters.create_snapshot_log(sites["hq"], "orders")
    snapshots.create(sites["jfk"], "orders", master="hq", updatable=True)
    snapshots.refresh(sites["jfk"], "orders")
    with sites["jfk"].begin() as connection:
        connection.execute(text(f"CREATE TABLE public.plain AS TABLE {_BASE}"))
        connection.execute(text("ALTER TABLE public.plain ADD PRIMARY KEY (id)"))


def _add(sites: Directory, column: str) -> None:
    """Add a column to the master whose values no log has."""
    with sites["hq"].begin() as connection:
        connection.execute(text(f"ALTER TABLE public.orders ADD {column} text"))
        connection.execute(text("SET LOCAL session_replication_role = replica"))
        connection.execute(text(f"UPDATE public.orders SET {column} = 'n' || id"))
    tidy(sites["hq"], "public.orders")
    tidy(sites["jfk"], _BASE)


def _prepare_by_hand(sites: Directory, column: str) -> None:
    with sites["jfk"].begin() as connection:
        connection.execute(text(f"ALTER TABLE public.plain ADD {column} text"))
        connection.execute(text("DROP TABLE IF EXISTS public.brought"))
        connection.execute(text("CREATE TABLE public.brought (id int, value text)"))
    tidy(sites["jfk"], "public.plain")


def _fill_by_hand(sites: Directory, column: str) -> None:
    with sites["hq"].begin() as there, sites["jfk"].begin() as here:
        query = f"SELECT id, {column} FROM public.orders"
        brought = sa.table("brought", schema="public")
        transport.copy(there, query, here, brought, ["id", "value"])
        here.execute(text("ANALYZE public.brought"))
        write = (
            f"UPDATE public.plain p SET {column} = b.value FROM public.brought b"
            " WHERE p.id = b.id"
        )
        here.execute(text(write))


@contextmanager
def _writers(sites: Directory) -> Iterator[list[float]]:
    """Have a user change one row after the other; the seconds of each write."""
    took: list[float] = []
    over = threading.Event()

    def write() -> None:
        with sites["jfk"].connect() as connection:
            for number in count(1):
                began = time.perf_counter()
                connection.execute(
                    text("UPDATE public.orders SET qty = qty + 1 WHERE id = :id"),
                    {"id": number},
                )
                connection.commit()
                took.append(time.perf_counter() - began)
                if over.wait(max(1 / WRITES - took[-1], 0)):
                    return

    user = threading.Thread(target=write)
    user.start()
    try:
        yield took
    finally:
        over.set()
        user.join()
