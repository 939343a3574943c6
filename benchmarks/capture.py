"""What a writer at a master pays for its snapshot log."""

from __future__ import annotations

from sqlalchemy import text

import masters
from benchmarks.pairs import Result, Side, alternate
from benchmarks.setting import create_orders, directory
from sites import Site


def run(rows: int) -> list[Result]:
    """An UPDATE of all rows, with a snapshot log and without."""
    with directory("hq") as sites:
        hq = sites["hq"]
        with hq.begin() as connection:
            create_orders(connection, rows)
            create_orders(connection, rows, "bare")
        masters.create_snapshot_log(hq, "orders")
        return [
            alternate(
                f"capture: update of {rows:,} rows",
                Side(
                    label="with a snapshot log",
                    run=lambda: _update(hq, "orders"),
                    before=lambda: _tidy(hq),
                ),
                Side(
                    label="without",
                    run=lambda: _update(hq, "bare"),
                    before=lambda: _tidy(hq),
                ),
            )
        ]


def _update(site: Site, table: str) -> None:
    with site.begin() as connection:
        connection.execute(text(f"UPDATE public.{table} SET qty = qty + 1"))  # noqa: S608


def _tidy(site: Site) -> None:
    masters.purge_snapshot_logs(site)
    with site.connect() as connection:
        autocommit = connection.execution_options(isolation_level="AUTOCOMMIT")
        for table in ("orders", "bare"):
            autocommit.execute(text(f"VACUUM public.{table}"))
        autocommit.execute(text("CHECKPOINT"))
