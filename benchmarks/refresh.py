"""What a fast refresh costs beyond reading and writing the rows."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import select, text

import masters
import snapshots
from benchmarks.pairs import Result, Side, alternate
from benchmarks.setting import create_orders, directory
from sites import Directory, QualifiedName, transport
from sites.table import describe

#: The same rows, for what is done by hand.
BARE = QualifiedName("public", "bare")


def run(rows: int) -> list[Result]:
    """A hundredth of the rows updated at the master: refreshed, and moved by hand."""
    with directory("hq", "jfk") as sites:
        with sites["hq"].begin() as connection:
            create_orders(connection, rows)
        for site in sites.values():
            with site.begin() as connection:
                create_orders(connection, rows, "bare")
        masters.create_snapshot_log(sites["hq"], "orders")
        snapshots.create(sites["jfk"], "orders", master="hq")
        snapshots.refresh(sites["jfk"], "orders")
        return [
            alternate(
                f"refresh: {rows // 100:,} of {rows:,} rows updated",
                Side(
                    label="fast refresh, warm",
                    run=lambda: snapshots.refresh(sites["jfk"], "orders"),
                    before=lambda: _change(sites, "orders"),
                ),
                Side(
                    label="COPY out, COPY in, join-update",
                    run=lambda: _by_hand(sites),
                    before=lambda: _change(sites, "bare"),
                ),
                pairs=9,
            )
        ]


def _change(sites: Directory, table: str) -> None:
    changed = f"UPDATE public.{table} SET qty = qty + 1 WHERE id % 100 = 7"  # noqa: S608
    with sites["hq"].begin() as connection:
        connection.execute(text(changed))


def _by_hand(sites: Directory) -> None:
    """The changed rows, known beforehand, written without looking at anything else."""
    with sites["hq"].begin() as master, sites["jfk"].begin() as site:
        table = describe(master, BARE).sql()
        names = [c.name for c in table.columns]
        work = sa.table("by_hand", *map(sa.column, names))
        site.execute(
            text("CREATE TEMPORARY TABLE by_hand (LIKE public.bare) ON COMMIT DROP")
        )
        changed = select(table).where(text("id % 100 = 7"))
        transport.copy(master, changed, site, work, names)
        site.execute(
            sa.update(table)
            .values({table.c[n]: work.c[n] for n in names[1:]})
            .where(table.c.id == work.c.id)
        )
