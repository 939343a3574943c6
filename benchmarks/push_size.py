"""The same push to a small and to a large master table: cost follows the change."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import text

import deferred
import masters
from benchmarks import push
from benchmarks.pairs import Against, Result, Side, alternate
from benchmarks.setting import create_orders, directory, tidy
from benchmarks.table_size import CHANGED, LARGER
from sites import Directory


def run(rows: int) -> list[Result]:
    """A push of 10,000 changed rows, in a table of so many and of four times that."""
    with directory("hq", "jfk") as sites:
        for name, size in (("orders", rows), ("large", rows * LARGER)):
            for site in sites.values():
                with site.begin() as connection:
                    create_orders(connection, size, name)
            masters.create_snapshot_log(sites["hq"], name)
            push.link(sites, name)
        return alternate(
            f"push: {CHANGED:,} rows changed",
            _side(sites, "large", rows * LARGER, rows),
            Against(side=_side(sites, "orders", rows, rows), bar=1.1),
            rounds=9,
        )


def _side(sites: Directory, name: str, rows: int, among: int) -> Side:
    return Side(
        label=f"in a table of {rows:,}",
        run=lambda: deferred.push(sites["jfk"]),
        before=_change(sites, name, among),
    )


def _change(sites: Directory, name: str, among: int) -> Callable[[], None]:
    """Change rows that lie equally dense, whatever the size of the table.

    Spread over all of it, those of the larger one would be on more pages of its index.
    """
    statement = (
        f"UPDATE public.{name} SET qty = qty + 1 WHERE id % :every = 0 AND id <= :among"
    )
    rows = {"every": max(among // CHANGED, 1), "among": among}

    def before() -> None:
        with sites["jfk"].begin() as connection:
            connection.execute(text(statement), rows)
        masters.purge_snapshot_logs(sites["hq"])
        for site in sites.values():
            tidy(site, f"public.{name}")

    return before
