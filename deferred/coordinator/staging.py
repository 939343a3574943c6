"""Work tables for coordinated transactions: unlogged, because none may be temporary.

PREPARE TRANSACTION refuses a transaction that touched a temporary table. One table
serves every transaction that sends these columns of this master table: each sees its
own rows alone, and takes them out before it is prepared.
"""

from __future__ import annotations

import hashlib

import sqlalchemy as sa
from sqlalchemy import Connection

from deferred.queue import Queue
from deferred.work import FIXED
from masters.errors import UnknownColumn
from sites import Site, triggers
from sites.catalog import SCHEMA
from sites.table import Table, describe
from sites.types import NativeType
from sites.write import Staged

#: First half of the advisory lock under which a work table is made.
_CREATE_LOCK = 0x53594E43


def stage(connection: Connection, master: Site, queue: Queue) -> Staged:
    """The work table for a queue's calls at its master; made when there is none.

    Parameters:
        connection: to the master; what is made is made over another one.

    Raises:
        UnknownTable, UnknownColumn: the master table, or one of its columns, is gone.
    """
    table = describe(connection, queue.target)
    gone = [name for name in queue.columns if name not in table.names]
    if gone:
        raise UnknownColumn(
            f"Table {table.qualified} has no column {', '.join(gone)} any more.",
            table=str(table.qualified),
            columns=gone,
        )
    types = [table.column(name).recorded for name in queue.columns]
    name = _name(table, queue, types)
    if not sa.inspect(connection).has_table(name, schema=SCHEMA):
        _create(master, name, types)
    columns: list[sa.ColumnClause[object]] = [
        sa.column(name, type_) for name, type_ in FIXED.items()
    ]
    for side in ("o", "n"):
        for recorded, kind in zip(triggers.numbered(side, types), types, strict=True):
            columns.append(sa.column(recorded, NativeType(kind)))
    return Staged(
        table=table,
        source=sa.table(name, *columns, schema=SCHEMA),
        columns=queue.columns,
        identity=queue.identity_columns,
    )


def _name(table: Table, queue: Queue, types: list[str]) -> str:
    """Other columns, or types that changed, make another table."""
    parts = [table.schema, table.name, *FIXED, *queue.columns, *types]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return f"work${digest[:16]}"


def _create(master: Site, name: str, types: list[str]) -> None:
    images = [
        sa.Column(recorded, NativeType(kind))
        for side in ("o", "n")
        for recorded, kind in zip(triggers.numbered(side, types), types, strict=True)
    ]
    table = sa.Table(
        name,
        sa.MetaData(),
        *(sa.Column(name, type_, nullable=False) for name, type_ in FIXED.items()),
        *images,
        schema=SCHEMA,
        prefixes=["UNLOGGED"],
    )
    with master.begin() as connection:
        lock = sa.func.pg_advisory_xact_lock(_CREATE_LOCK, sa.func.hashtext(name))
        connection.execute(sa.select(lock))
        table.create(connection, checkfirst=True)
