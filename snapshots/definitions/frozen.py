"""Rows that leave a snapshot and may not be changed until they are gone.

A refresh that holds such a row back notes its key with a reason of its own
(`merge.py`). A trigger refuses updates and deletes of these keys. Only snapshots
with the policy freeze have it.
"""

from __future__ import annotations

from psycopg import sql
from sqlalchemy import Connection

from sites.capture import triggers
from sites.catalog import SCHEMA
from sites.sessions.exchange import raw
from sites.tables.table import Table
from snapshots.definitions.policy import Leaving
from snapshots.definitions.snapshot import Snapshot
from snapshots.sql import load

#: Why a key is among the extra keys, if its row is frozen.
REASON = "frozen"

#: The statements that may change a row that is there.
EVENTS = ("UPDATE", "DELETE")


def guard(connection: Connection, snapshot: Snapshot, base: Table) -> None:
    """Refuse changes of frozen rows, or no longer: as the snapshot's policy says.

    If the trigger comes or goes, users of the snapshot wait for a moment.
    """
    name = _function(snapshot)
    if snapshot.leaving != Leaving.FREEZE:
        remove(connection, snapshot)
        return
    extra = sql.Identifier(SCHEMA, snapshot.extra_table)
    key = [base.column(column) for column in snapshot.identity_columns]
    statement = sql.SQL(load("frozen_function")).format(
        function=sql.Identifier(SCHEMA, name),
        extra=extra,
        extra_name=sql.Literal(extra.as_string()),
        numbers=sql.Literal([column.number for column in key]),
        names=sql.Literal([column.name for column in key]),
        table=sql.Literal(base.oid),
        called=sql.Literal(snapshot.key),
    )
    raw(connection).execute(statement)
    if not triggers.are_there(connection, snapshot.base, name, EVENTS):
        triggers.attach(connection, base, name, events=EVENTS)


def remove(connection: Connection, snapshot: Snapshot) -> None:
    """Drop the trigger of a snapshot, if it has one."""
    triggers.remove(connection, _function(snapshot))


def _function(snapshot: Snapshot) -> str:
    return "frozen" + snapshot.extra_table.removeprefix("extra")
