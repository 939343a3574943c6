"""The dictionary view of deferred calls, over all queue tables.

The other views (deftran, deftrandest, deferror, defschedule) use it and the
catalog; the chain of migrations creates them once.

A queue that comes or goes makes the views anew for all others as well: what they say of
a queue is written once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Text, func, select
from sqlalchemy.dialects.postgresql import JSONB, array

from deferred.catalog import procedure_call
from deferred.queues.queue import MOST_WRITTEN, Queue
from sites import QualifiedName
from sites.catalog import SCHEMA
from sites.tables import views
from sites.transfer.transport import literal_text
from sites.transfer.types import Xid8

DEFCALL = QualifiedName(SCHEMA, "defcall")
DEFLOAD = QualifiedName(SCHEMA, "defload")


def replace_defcall(connection: Connection, queues: Sequence[Queue]) -> None:
    """Make `defcall` show the calls of exactly these queues, and of procedures."""
    parts = [_no_calls(), *map(_calls, queues), _called()]
    views.replace(connection, DEFCALL, parts)


def replace_defload(connection: Connection, queues: Sequence[Queue]) -> None:
    """Make `defload` count the calls of exactly these queues, and of procedures."""
    parts = [_no_load(), *map(_load, queues), _called_load()]
    views.replace(connection, DEFLOAD, parts)


@lru_cache(MOST_WRITTEN)
def _load(queue: Queue) -> str:
    calls = queue.sql().alias("c")
    size = func.pg_column_size(calls.table_valued())
    query = (
        select(
            sa.literal(queue.destination).label("destination"),
            calls.c.xid,
            func.count().label("calls"),
            func.sum(size).label("bytes"),
        )
        .where(queue.goes_there(calls.c.xid))
        .group_by(calls.c.xid)
    )
    return literal_text(query)


@cache
def _called_load() -> str:
    size = func.pg_column_size(procedure_call.c.arguments)
    to = func.unnest(procedure_call.c.destinations).label("destination")
    each = select(to, procedure_call.c.xid, size.label("size")).subquery()
    query = select(
        each.c.destination,
        each.c.xid,
        func.count().label("calls"),
        func.sum(each.c.size).label("bytes"),
    ).group_by(each.c.destination, each.c.xid)
    return literal_text(query)


@cache
def _no_load() -> str:
    query = select(
        sa.cast(sa.null(), Text).label("destination"),
        sa.cast(sa.null(), Xid8()).label("xid"),
        sa.cast(sa.null(), sa.BigInteger).label("calls"),
        sa.cast(sa.null(), sa.BigInteger).label("bytes"),
    ).where(sa.false())
    return literal_text(query)


@lru_cache(MOST_WRITTEN)
def _calls(queue: Queue) -> str:
    calls = queue.sql()
    names = array([sa.literal(name) for name in queue.columns])
    query = select(
        calls.c.call_no.label("callno"),
        sa.cast(calls.c.xid, Text).label("deferred_tran_id"),
        sa.literal(queue.snapshot).label("snapshot"),
        sa.literal(queue.destination).label("destination"),
        sa.literal(queue.target_schema).label("schemaname"),
        sa.literal(queue.target_table).label("tablename"),
        sa.cast(calls.c.kind, Text).label("operation"),
        _image(names, calls, "o", len(queue.columns)).label("old_values"),
        _image(names, calls, "n", len(queue.columns)).label("new_values"),
    ).where(queue.goes_there(calls.c.xid))
    return literal_text(query)


def _image(
    names: ColumnElement[Any], calls: sa.TableClause, side: str, count: int
) -> ColumnElement[Any]:
    absent = "Ii" if side == "o" else "Dd"
    values = array([sa.cast(calls.c[f"{side}{n}"], Text) for n in range(1, count + 1)])
    return sa.case(
        (sa.cast(calls.c.kind, Text).in_(tuple(absent)), sa.null()),
        else_=sa.cast(func.json_object(names, values), JSONB),
    )


@cache
def _called() -> str:
    """Calls of procedures, one row for each destination."""
    query = select(
        procedure_call.c.call_no.label("callno"),
        sa.cast(procedure_call.c.xid, Text).label("deferred_tran_id"),
        sa.cast(sa.null(), Text).label("snapshot"),
        func.unnest(procedure_call.c.destinations).label("destination"),
        sa.cast(sa.null(), Text).label("schemaname"),
        procedure_call.c.name.label("tablename"),
        sa.literal("P").label("operation"),
        sa.cast(sa.null(), JSONB).label("old_values"),
        procedure_call.c.arguments.label("new_values"),
    )
    return literal_text(query)


@cache
def _no_calls() -> str:
    texts = (
        "deferred_tran_id",
        "snapshot",
        "destination",
        "schemaname",
        "tablename",
        "operation",
    )
    query = select(
        sa.cast(sa.null(), sa.BigInteger).label("callno"),
        *(sa.cast(sa.null(), Text).label(name) for name in texts),
        sa.cast(sa.null(), JSONB).label("old_values"),
        sa.cast(sa.null(), JSONB).label("new_values"),
    ).where(sa.false())
    return literal_text(query)
