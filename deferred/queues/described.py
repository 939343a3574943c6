"""The tables that calls are about, as they are now."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from masters.errors import UnknownColumn
from sites import QualifiedName
from sites.table import Table, describe


def described(
    connection: Connection, target: QualifiedName, columns: Sequence[str]
) -> Table:
    """A base or master table, which must have the columns that are carried.

    Raises:
        UnknownTable, UnknownColumn: it, or one of its columns, is gone.
    """
    table = describe(connection, target)
    gone = [name for name in columns if name not in table.names]
    if gone:
        raise UnknownColumn(
            f"Table {table.qualified} has no column {', '.join(gone)} any more.",
            table=str(table.qualified),
            columns=gone,
        )
    return table
