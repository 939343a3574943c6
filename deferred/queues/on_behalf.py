"""Queues calls that no statement has made, as if a user's transaction had.

A push sends them with the others, in the order of their commits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, func, select
from sqlalchemy.dialects.postgresql import insert

from deferred.catalog import deferred_transaction, order_no
from deferred.queues.queue import Queue


def queue_calls(
    connection: Connection,
    queue: Queue,
    user: str,
    calls: sa.Select[Any],
    *,
    sources: Mapping[str, str] | None = None,
) -> int:
    """Queue calls in the deferred transaction of the caller's transaction.

    Writes the queue and deferred_transaction.

    Parameters:
        user: who is named as having made the transaction.
        calls: the kind, whether the key changes, and the old and the new values of the
            columns of the queue; values that a call does not have are NULL.
        sources: by id of a replication group, the source whose routes the calls take;
            those of this site by default.

    Returns:
        How many calls were queued.
    """
    xid = func.pg_current_xact_id()
    made = insert(deferred_transaction).values(
        xid=xid, origin_user=user, sources=sources
    )
    connection.execute(made.on_conflict_do_nothing())
    # Old and new values may have the same names, or those of other columns.
    numbered = (c.label(f"v{n}") for n, c in enumerate(calls.selected_columns))
    given = calls.with_only_columns(*numbered, maintain_column_froms=True)
    rows = select(order_no.next_value(), xid, *given.subquery("given").c)
    table = queue.sql()
    first, second, *others = [column.name for column in table.columns]
    assert (first, second) == ("xid", "call_no")
    columns = [second, first, *others]
    return connection.execute(sa.insert(table).from_select(columns, rows)).rowcount
