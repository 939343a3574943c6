"""Work tables for coordinated transactions: unlogged, because none may be temporary.

PREPARE TRANSACTION refuses a transaction that touched a temporary table. One table
serves every transaction that sends these columns of this master table: each sees its
own rows alone, and takes them out before it is prepared.
"""

from __future__ import annotations

import hashlib

import sqlalchemy as sa
from sqlalchemy import Connection

from deferred import work
from deferred.queue import Queue
from sites import Site
from sites.catalog import SCHEMA
from sites.staged import Staged
from sites.table import Table

#: First half of the advisory lock under which a work table is made.
_CREATE_LOCK = 0x53594E43


def stage(connection: Connection, master: Site, queue: Queue) -> Staged:
    """The work table for a queue's calls at its master; made when there is none.

    Parameters:
        connection: to the master; what is made is made over another one.

    Raises:
        UnknownTable, UnknownColumn: the master table, or one of its columns, is gone.
    """
    table = work.described(connection, queue.target, queue.columns)
    name = _name(table, queue)
    if not sa.inspect(connection).has_table(name, schema=SCHEMA):
        _create(master, name, table, queue)
    return Staged(
        table=table,
        source=work.source(name, table, queue.columns, SCHEMA),
        columns=queue.columns,
        identity=queue.identity_columns,
    )


def _name(table: Table, queue: Queue) -> str:
    """Other columns, or types that changed, make another table."""
    types = [table.column(name).recorded for name in queue.columns]
    parts = [table.schema, table.name, *work.FIXED, *queue.columns, *types]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return f"work${digest[:16]}"


def _create(master: Site, name: str, table: Table, queue: Queue) -> None:
    with master.begin() as connection:
        lock = sa.func.pg_advisory_xact_lock(_CREATE_LOCK, sa.func.hashtext(name))
        connection.execute(sa.select(lock))
        if not sa.inspect(connection).has_table(name, schema=SCHEMA):
            work.create(
                connection,
                name,
                table,
                queue.columns,
                schema=SCHEMA,
                prefixes=["UNLOGGED"],
            )
