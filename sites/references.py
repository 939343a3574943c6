"""Foreign keys through which a change of one row reaches others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from psycopg import sql
from sqlalchemy import Connection, text

from sites.sql import load
from sites.table import Table
from sites.transport import raw


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


def referred(connection: Connection, table: Table) -> frozenset[str]:
    """The columns of a table that foreign keys refer to."""
    rows = connection.scalars(text(load("referred_columns")), {"oid": table.oid})
    return frozenset(rows)


def check_outside(connection: Connection, tables: Collection[int]) -> None:
    """Check foreign keys between these tables and others at once.

    Whoever writes only these finds which row such a key refuses.
    """
    outside = connection.execute(
        text(load("outside_references")), {"oids": [*tables]}
    ).all()
    if outside:
        names = sql.SQL(", ").join(sql.Identifier(*name) for name in outside)
        raw(connection).execute(sql.SQL("SET CONSTRAINTS {} IMMEDIATE").format(names))
