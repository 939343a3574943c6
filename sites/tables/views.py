"""Views: creating them from queries, and finding those of a table."""

from __future__ import annotations

from collections.abc import Iterable

from psycopg import sql
from sqlalchemy import Connection, text

from sites.names import QualifiedName, identifier
from sites.sessions.exchange import raw


def reading(
    connection: Connection, table: QualifiedName
) -> dict[QualifiedName, tuple[str, ...]]:
    """The views that read a table, each with its columns."""
    rows = connection.execute(_READING, {"table": identifier(table).as_string()})
    return {QualifiedName(row.nspname, row.relname): tuple(row.columns) for row in rows}


_READING = text("""
SELECT DISTINCT n.nspname, v.relname, ARRAY(
    SELECT a.attname::text FROM pg_attribute a
    WHERE a.attrelid = v.oid AND a.attnum > 0 ORDER BY a.attnum) AS columns
FROM pg_depend d
JOIN pg_rewrite r ON r.oid = d.objid
JOIN pg_class v ON v.oid = r.ev_class
JOIN pg_namespace n ON n.oid = v.relnamespace
WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass
  AND d.refobjid = to_regclass(:table)
""")


def replace(
    connection: Connection, name: QualifiedName, queries: Iterable[str]
) -> None:
    """Create a view, or give it other queries with the same columns.

    Parameters:
        queries: the view has the rows of all of them.
    """
    raw(connection).execute(
        sql.SQL("CREATE OR REPLACE VIEW {} AS {}").format(
            identifier(name), all_rows(queries)
        )
    )


def all_rows(queries: Iterable[str]) -> sql.Composed:
    """The rows of several queries, as one query."""
    return sql.SQL(" UNION ALL ").join(map(sql.SQL, queries))
