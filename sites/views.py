"""Creating views from queries."""

from __future__ import annotations

from typing import Any

from psycopg import sql
from sqlalchemy import Connection, Select
from sqlalchemy.sql.selectable import CompoundSelect

from sites.names import QualifiedName, identifier
from sites.transport import literal_text, raw


def replace(
    connection: Connection,
    name: QualifiedName,
    query: Select[Any] | CompoundSelect[Any],
) -> None:
    """Create a view, or give it another query with the same columns."""
    raw(connection).execute(
        sql.SQL("CREATE OR REPLACE VIEW {} AS {}").format(
            identifier(name),
            sql.SQL(literal_text(query)),  # type: ignore[arg-type]
        )
    )
