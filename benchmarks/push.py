"""What a push costs beyond moving and writing the rows."""

from __future__ import annotations

from collections.abc import Callable

from psycopg import sql
from sqlalchemy import text

import deferred
import masters
from benchmarks import push_by_hand
from benchmarks.pairs import Against, Result, Side, alternate
from benchmarks.setting import ROW, create_orders, directory, tidy
from deferred.queues import define
from sites import Directory, QualifiedName
from sites.tables.table import describe

#: Transactions of one row each, and the rows that they are about.
SMALL, KEYS = 20_000, 5_000

#: kind, bar, statement of one transaction
_LARGE = (
    ("U", 1.5, "UPDATE public.{} SET qty = qty + 1"),
    ("D", 1.6, "DELETE FROM public.{}"),
    (
        "I",
        1.6,
        f"INSERT INTO public.{{}} SELECT {ROW} FROM generate_series(1, :rows) g",
    ),
)

#: As a refresh says which table it writes.
_WRITING = (
    "SELECT set_config('snaptide.writing', 'public.{}'::regclass::oid::text, true)"
)
_WORDS = {"U": "updates", "D": "deletes", "I": "inserts"}


def run(rows: int) -> list[Result]:
    """One transaction on all rows, and many on few: pushed, and moved by hand."""
    with directory("hq", "jfk") as sites:
        for site in sites.values():
            with site.begin() as connection:
                create_orders(connection, rows)
                create_orders(connection, rows, "bare")
        for table in ("orders", "bare"):
            masters.create_snapshot_log(sites["hq"], table)
        push_by_hand.prepare(sites)
        link(sites)
        results = small(sites)
        for kind, bar, statement in _LARGE:
            results += _large(sites, rows, kind, bar, statement)
        return results


def _large(
    sites: Directory, rows: int, kind: str, bar: float, statement: str
) -> list[Result]:
    def before(table: str) -> Callable[[], None]:
        def change() -> None:
            _fill(sites, table, rows, full=kind != "I")
            with sites["jfk"].begin() as connection:
                connection.execute(text("TRUNCATE public.changed"))
                listed = (
                    "INSERT INTO public.changed SELECT :kind, generate_series(1, :rows)"
                )
                connection.execute(text(listed), {"kind": kind, "rows": rows})
                parameters = {"rows": rows} if ":rows" in statement else {}
                connection.execute(text(statement.format(table)), parameters)
            _settle(sites, table)

        return change

    return compare(
        sites, f"push: one transaction of {rows:,} {_WORDS[kind]}", before, bar
    )


def small(sites: Directory) -> list[Result]:
    """Many transactions of one row each, over few rows."""

    def before(table: str) -> Callable[[], None]:
        def change() -> None:
            with sites["jfk"].begin() as connection:
                connection.execute(text("TRUNCATE public.changed"))
                listed = (
                    "INSERT INTO public.changed SELECT 'U', generate_series(1, :keys)"
                )
                connection.execute(text(listed), {"keys": KEYS})
            commit_each(sites, table, SMALL, KEYS)
            _settle(sites, table)

        return change

    name = f"push: {SMALL:,} transactions of one row, over {KEYS:,} rows"
    return compare(sites, name, before, bar=2.5)


def compare(
    sites: Directory, name: str, before: Callable[[str], Callable[[], None]], bar: float
) -> list[Result]:
    """Push what was changed in one table, by hand what was changed in the other."""
    return alternate(
        name,
        Side(
            label="push",
            run=lambda: deferred.push(sites["jfk"]),
            before=before("orders"),
        ),
        Against(
            side=Side(
                label="known operations, by hand",
                run=lambda: push_by_hand.push(sites),
                before=before("bare"),
            ),
            bar=bar,
        ),
    )


def _fill(sites: Directory, table: str, rows: int, *, full: bool) -> None:
    """Let a table have all of its rows, or none, at both sites, without a call."""
    for site in sites.values():
        with site.begin() as connection:
            held = connection.scalar(text(f"SELECT count(*) FROM public.{table}"))
            if held == (rows if full else 0):
                continue
            connection.execute(text("SET LOCAL snaptide.origin = 'hq'"))
            connection.execute(text(_WRITING.format(table)))
            connection.execute(text(f"DELETE FROM public.{table}"))
            if full:
                statement = _LARGE[-1][-1].format(table)
                connection.execute(text(statement), {"rows": rows})


def commit_each(sites: Directory, table: str, transactions: int, keys: int) -> None:
    """Commit transactions of one row each, over so many rows, one after the other."""
    statement = sql.SQL("UPDATE {} SET qty = qty + 1 WHERE id = %s").format(
        sql.Identifier("public", table)
    )
    with sites["jfk"].connect() as connection:
        driver = connection.connection.driver_connection
        assert driver is not None
        driver.autocommit = True
        driver.execute("SET synchronous_commit = off")
        with driver.pipeline() as pipeline:
            for n in range(transactions):
                driver.execute(statement, [n % keys + 1])
                pipeline.sync()  # without it all of them are one transaction
        driver.execute("RESET synchronous_commit")
        driver.autocommit = False


def _settle(sites: Directory, table: str) -> None:
    masters.purge_snapshot_logs(sites["hq"])
    for site in sites.values():
        tidy(site, f"public.{table}")


def link(sites: Directory, table: str = "orders", origin: str = "jfk") -> None:
    """An updatable snapshot's queue over a table that is filled already."""
    name = QualifiedName("public", table)
    with sites[origin].transaction() as connection:
        connection.execute(
            text(
                f"CREATE TABLE snaptide.extra_{table} (id bigint GENERATED ALWAYS AS"
                " IDENTITY, k1 int, reason text, batch_no bigint, order_no bigint,"
                " master_xid xid8)"
            )
        )
        base = describe(connection, name)
        define.create_queue(
            connection,
            snapshot=table,
            base=base,
            destination="hq",
            target=name,
            columns=base.names,
            identity=("id",),
            partial=False,
            extra_table=f"extra_{table}",
            refuse_new_keys=False,
        )
