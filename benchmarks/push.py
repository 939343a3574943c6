"""What a push costs beyond moving and writing the rows."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import select, text

import deferred
import masters
from benchmarks.pairs import Against, Result, Side, alternate
from benchmarks.setting import create_orders, directory
from deferred import queue
from sites import Directory, QualifiedName, transport
from sites.table import describe

ORDERS = QualifiedName("public", "orders")
#: The same rows under the same capture, for what is done by hand.
BARE = QualifiedName("public", "bare")


def run(rows: int) -> list[Result]:
    """One transaction that updates all rows: pushed, and moved by bare SQL."""
    with directory("hq", "jfk") as sites:
        for site in sites.values():
            with site.begin() as connection:
                create_orders(connection, rows)
                create_orders(connection, rows, "bare")
        for table in ("orders", "bare"):
            masters.create_snapshot_log(sites["hq"], table)
        link(sites)
        return alternate(
            f"push: one transaction of {rows:,} updates",
            Side(
                label="push",
                run=lambda: deferred.push(sites["jfk"]),
                before=lambda: _change(sites, "orders"),
            ),
            Against(
                side=Side(
                    label="COPY out, COPY in, join-update",
                    run=lambda: _by_hand(sites),
                    before=lambda: _change(sites, "bare"),
                ),
                bar=1.5,
            ),
        )


def link(sites: Directory) -> None:
    """An updatable snapshot's queue over a table that is filled already."""
    with sites["jfk"].begin() as connection:
        connection.execute(
            text(
                "CREATE TABLE snaptide.extra_orders (id bigint GENERATED ALWAYS AS"
                " IDENTITY, k1 int, reason text, batch_no bigint, order_no bigint,"
                " master_xid xid8)"
            )
        )
        base = describe(connection, ORDERS)
        queue.create_queue(
            connection,
            snapshot="orders",
            base=base,
            destination="hq",
            target=ORDERS,
            columns=base.names,
            identity=("id",),
            partial=False,
            extra_table="extra_orders",
            refuse_new_keys=False,
        )


def _change(sites: Directory, table: str) -> None:
    masters.purge_snapshot_logs(sites["hq"])
    for site in sites.values():
        with site.connect() as connection:
            autocommit = connection.execution_options(isolation_level="AUTOCOMMIT")
            autocommit.execute(text(f"VACUUM public.{table}"))
    with sites["jfk"].begin() as connection:
        connection.execute(text(f"UPDATE public.{table} SET qty = qty + 1"))


def _by_hand(sites: Directory) -> None:
    """The same rows, with nothing compared, ordered, recorded or made sure of."""
    with sites["jfk"].begin() as origin, sites["hq"].begin() as target:
        table = describe(origin, BARE).sql()
        work = sa.table("by_hand", *(sa.column(c.name) for c in table.columns))
        target.execute(
            text("CREATE TEMPORARY TABLE by_hand (LIKE public.bare) ON COMMIT DROP")
        )
        names = [c.name for c in table.columns]
        transport.copy(origin, select(table), target, work, names)
        target.execute(
            sa.update(table)
            .values({table.c[n]: work.c[n] for n in names[1:]})
            .where(table.c.id == work.c.id)
        )
