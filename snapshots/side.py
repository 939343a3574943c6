"""The two databases of a comparison, each read at one moment."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, func, select

from sites.extras import pa
from sites.sessions.site import Site
from sites.transfer import arrow, transport
from sites.transfer.transport import literal_text

#: More rows than this are worth a connection of their own that reads no text.
FEW = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A database, and a REPEATABLE READ transaction there that stays open."""

    site: Site
    at: Connection

    def moment(self) -> str:
        """Export the transaction's moment for other sessions, and return its name."""
        return str(self.at.scalar(select(func.pg_export_snapshot())))

    def read(self, query: Select[Any], shape: pa.Schema, *, many: bool) -> pa.Table:
        """Run a query, and hold its rows as an Arrow table.

        Parameters:
            query: casts values that must travel as text
            (`sites.transfer.arrow.carrier`). many: whether it is likely to find more
            than a few rows.
        """
        if not many:
            text = transport.copy_out_csv(self.at, query)
            return arrow.from_csv(pa.py_buffer(text), shape)
        sql = literal_text(query)
        self.site.release()
        found = arrow.read_table(self.site.libpq_uri(), sql, snapshot=self.moment())
        return pa.Table.from_arrays(found.columns, schema=shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The master and the site."""

    master: Side
    site: Side

    def read(
        self, there: Select[Any], here: Select[Any], shape: pa.Schema, *, many: bool
    ) -> tuple[pa.Table, pa.Table]:
        """Read from both at the same time."""
        with ThreadPoolExecutor(max_workers=1) as beside:
            theirs = beside.submit(self.master.read, there, shape, many=many)
            present = self.site.read(here, shape, many=many)
            return theirs.result(), present
