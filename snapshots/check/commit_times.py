"""When rows were written, by the times at which a database's transactions committed.

PostgreSQL keeps them if `track_commit_timestamp` is on, and not for ever: a row may
have been written before the oldest of them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from psycopg import sql
from sqlalchemy import ColumnElement, Connection, func, select

from snapshots.check.errors import NoCommitTimes


def require(connection: Connection, site: str) -> None:
    """Make sure that a database keeps them.

    Raises:
        NoCommitTimes: it does not.
    """
    kept = select(func.current_setting("track_commit_timestamp"))
    if connection.scalar(kept) != "on":
        raise NoCommitTimes(f"Site {site} does not keep commit times.", site=site)


def of(xmin: ColumnElement[Any]) -> ColumnElement[Any]:
    """When the transaction of a row's `xmin` committed; NULL if that is not known."""
    return func.pg_xact_commit_timestamp(xmin)


def since(moment: datetime) -> str:
    """The condition on rows of a table that were written since a time.

    It also holds for rows whose time is not known: these may be as young. Rows of a
    foreign table have no transaction.
    """
    text = sql.SQL("coalesce(pg_xact_commit_timestamp({}) >= {}, true)").format(
        sql.SQL("nullif(xmin, '0'::xid)"), sql.Literal(moment)
    )
    return text.as_string()
