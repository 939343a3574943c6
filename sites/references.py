"""Foreign keys through which a change of one row reaches others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, text

from sites.sql import load
from sites.table import Table


def acting(
    connection: Connection, tables: Sequence[Table]
) -> Mapping[int, tuple[str, ...]]:
    """Columns whose change, or delete, acts on rows of tables that refer to them.

    Returns:
        oid -> columns, of the tables that have any.
    """
    rows = connection.execute(
        text(load("acting_references")), {"oids": [table.oid for table in tables]}
    )
    return {row.oid: tuple(row.columns) for row in rows}
