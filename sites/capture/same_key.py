"""How a trigger function tells that a new and an old row are the same one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from psycopg import sql

from sites.tables.table import Column, Table


def same_key(
    table: Table, keys: Sequence[str], called: Mapping[str, sql.Identifier]
) -> sql.Composed:
    """Whether a new and an old row, n and o, are the same one."""
    return sql.SQL(" AND ").join(
        sql.SQL("n.{0} {1} o.{0}").format(called[key], _equals(table.column(key)))
        for key in keys
    )


def _equals(column: Column) -> sql.SQL:
    """The qualified operator of the column's type: PostgreSQL looks `=` up by name."""
    return sql.SQL(f"OPERATOR({column.equality or 'pg_catalog.='})")
