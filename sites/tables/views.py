"""Views: creating them from queries, and finding those of a table."""

from __future__ import annotations

from typing import Any

from psycopg import sql
from sqlalchemy import Connection, Select, text
from sqlalchemy.sql.selectable import CompoundSelect

from sites.names import QualifiedName, identifier
from sites.sessions.exchange import raw
from sites.transfer.transport import literal_text


def reading(connection: Connection, table: QualifiedName) -> set[QualifiedName]:
    """The views that read a table."""
    rows = connection.execute(_READING, {"table": identifier(table).as_string()})
    return {QualifiedName(row.nspname, row.relname) for row in rows}


_READING = text("""
SELECT DISTINCT n.nspname, v.relname
FROM pg_depend d
JOIN pg_rewrite r ON r.oid = d.objid
JOIN pg_class v ON v.oid = r.ev_class
JOIN pg_namespace n ON n.oid = v.relnamespace
WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass
  AND d.refobjid = to_regclass(:table)
""")


def replace(
    connection: Connection,
    name: QualifiedName,
    query: Select[Any] | CompoundSelect[Any],
) -> None:
    """Create a view, or give it another query with the same columns."""
    raw(connection).execute(
        sql.SQL("CREATE OR REPLACE VIEW {} AS {}").format(
            identifier(name),
            sql.SQL(literal_text(query)),
        )
    )
