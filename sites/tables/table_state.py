"""The state of a table: what statements were built from, to tell whether it changed.

A statement that is kept can compare the state in the same round trip. It locks the
table before it looks, so that what it finds holds until its transaction ends; a
transaction that reads as of one moment finds the state of that moment.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Text, literal_column

from sites.names import QualifiedName
from sites.sql import load

_OF = """
SELECT {state} FROM pg_class t JOIN pg_namespace n ON n.oid = t.relnamespace
WHERE (n.nspname, t.relname) = (:schema, :table)
"""


def state(oid: int) -> ColumnElement[str | None]:
    """Expression for the state of a table as text; NULL if the table is gone.

    It changes with the table's columns, unique values and rewrite rules, and with all
    foreign keys of the table and to it. Foreign keys are known by their triggers, which
    an index finds from both tables.
    """
    return literal_column(load("table_state").format(table=f"{oid:d}::oid"), Text)


def read(connection: Connection, table: QualifiedName) -> str | None:
    """The state of a table; NULL if there is none of that name."""
    query = _OF.format(state=load("table_state").format(table="t.oid"))
    found: str | None = connection.scalar(
        sa.text(query), {"schema": table.schema, "table": table.name}
    )
    return found
