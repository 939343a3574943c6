"""The calls that a transaction has captured in all queues, for its coordinator.

One function in the database returns them. It is replaced whenever a queue comes or
goes, because a coordinator with a list of its own could miss the newest queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import sqlalchemy as sa
from psycopg import sql
from sqlalchemy import ColumnElement, Connection, Text, cast, literal, select
from sqlalchemy.dialects.postgresql import ARRAY, array

from deferred.queues.queue import MOST_WRITTEN, Queue
from deferred.queues.sql import load
from sites.catalog import SCHEMA
from sites.sessions.exchange import raw
from sites.tables import views
from sites.transfer.transport import literal_text

FUNCTION = "captured_calls"


def replace_captured_calls(connection: Connection, queues: Sequence[Queue]) -> None:
    """Make `captured_calls` read exactly these queues."""
    parts = [_calls(queue) for queue in queues] or [_no_calls()]
    calls = views.all_rows(parts)
    raw(connection).execute(
        sql.SQL(load("captured_calls")).format(
            function=sql.Identifier(SCHEMA, FUNCTION), calls=calls
        )
    )


def drop_captured_calls(connection: Connection) -> None:
    """Drop the function, so that one with other columns can be created."""
    raw(connection).execute(
        sql.SQL("DROP FUNCTION IF EXISTS {}(bigint, integer)").format(
            sql.Identifier(SCHEMA, FUNCTION)
        )
    )


@lru_cache(MOST_WRITTEN)
def _calls(queue: Queue) -> str:
    calls = queue.sql()
    count = range(1, len(queue.columns) + 1)
    old, new = ([cast(calls.c[f"{side}{n}"], Text) for n in count] for side in "on")
    mine: ColumnElement[Any] = sa.column("mine")
    after: ColumnElement[Any] = sa.column("after")
    query = select(
        literal(queue.id).label("queue_id"),
        calls.c.call_no.label("call_no"),
        cast(calls.c.kind, Text).label("kind"),
        array(old).label("old_values"),
        array(new).label("new_values"),
        literal(queue.synchronous).label("synchronous"),
    ).where(calls.c.xid == mine, calls.c.call_no > after)
    return literal_text(query)


@cache
def _no_calls() -> str:
    texts = cast(sa.null(), ARRAY(Text))
    query = select(
        cast(sa.null(), sa.Integer).label("queue_id"),
        cast(sa.null(), sa.BigInteger).label("call_no"),
        cast(sa.null(), Text).label("kind"),
        texts.label("old_values"),
        texts.label("new_values"),
        cast(sa.null(), sa.Boolean).label("synchronous"),
    ).where(sa.false())
    return literal_text(query)
