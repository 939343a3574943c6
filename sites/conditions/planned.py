"""What the planner of a server expects of a query, before it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa
from psycopg import sql
from sqlalchemy import Connection

from sites.sessions.exchange import raw
from sites.transfer.transport import literal_text

#: They read all rows of a table, or of a range of its pages, whatever a query asks for.
_READ_ALL = {"Seq Scan", "Tid Range Scan", "Sample Scan"}


def is_small_by_index(
    connection: Connection, query: sa.Select[Any], most_bytes: int
) -> bool:
    """Whether indexes lead to all rows of a query, and these are few.

    Parameters:
        most_bytes: how many the rows may have together, as the planner expects.
    """
    text = sql.SQL("EXPLAIN (FORMAT JSON) {}").format(sql.SQL(literal_text(query)))
    [row] = raw(connection).execute(text)
    found: Any = row[0]
    top: Mapping[str, Any] = found[0]["Plan"]
    size = top["Plan Rows"] * top["Plan Width"]
    return size <= most_bytes and not any(
        node["Node Type"] in _READ_ALL for node in _nodes(top)
    )


def _nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from _nodes(below)
