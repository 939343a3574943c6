"""Work tables for coordinated transactions: unlogged, because none may be temporary.

PREPARE TRANSACTION refuses a transaction that touched a temporary table. One table
serves every transaction that sends these columns of this master table: each sees only
its own rows, and deletes them before it is prepared. A transaction that uses one holds
an advisory lock on its name, so that a purge may drop unused ones.
"""

from __future__ import annotations

import hashlib
import uuid

import sqlalchemy as sa
from sqlalchemy import Connection

from deferred.batches import footprint, lost_rows, work
from deferred.errors import PredecessorLost, WaitsForError
from deferred.parked import error_dependencies
from deferred.procedures.steps import Steps
from deferred.queues import target_columns
from deferred.queues.queue import Queue
from deferred.queues.target_columns import described
from masters.apply import ApplyUnit
from sites import QualifiedName, Site
from sites.catalog import SCHEMA
from sites.tables import roles
from sites.tables.table import Table
from sites.writing.staged import Staged

#: First half of the advisory lock under which a work table is made.
_CREATE_LOCK = 0x53594E43


def stage(connection: Connection, master: Site, queue: Queue) -> Staged:
    """The work table for a queue's calls at its master; created if there is none.

    Parameters:
        connection: to the master; a new table is created over another connection.

    Raises:
        UnknownTable, UnknownColumn: the master table, or one of its columns, is gone.
        TargetColumnsMoved: columns of the master table have exchanged names.
        ValueWouldChange: the master may round or cut values.
    """
    table = described(connection, queue.target, queue.columns)
    work.refuse_hidden(table)
    target_columns.refuse_moved(queue, table)
    target_columns.refuse_narrower(queue, table)
    name = _name(table, queue)
    use = sa.func.pg_advisory_xact_lock_shared(work.USE_LOCK, sa.func.hashtext(name))
    connection.execute(sa.select(use))
    if not _exists(connection, name):
        _create(master, name, table, queue)
    return Staged(
        table=table,
        source=work.source(name, table, queue.columns, SCHEMA),
        columns=queue.columns,
        identity=queue.identity_columns,
    )


def _exists(connection: Connection, name: str) -> bool:
    """Whether the table exists now, whatever the transaction's snapshot shows."""
    found = sa.func.to_regclass(f'{SCHEMA}."{name}"')
    return connection.scalar(sa.select(sa.cast(found, sa.Text))) is not None


def _name(table: Table, queue: Queue) -> str:
    """The name of the work table, which differs with the columns and their types."""
    types = [table.column(name).staged_type.name for name in queue.columns]
    parts = [table.schema, table.name, *work.FIXED, *queue.columns, *types]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return f"{work.SHARED}{digest[:16]}"


def _create(master: Site, name: str, table: Table, queue: Queue) -> None:
    with master.transaction() as connection:
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
            roles.open_to(connection, roles.WORK, QualifiedName(SCHEMA, name))


def refuse_dependent(
    connection: Connection, site_id: uuid.UUID, unit: ApplyUnit, master: str
) -> None:
    """Refuse staged changes that start from, or refer to, rows of a parked call.

    A push would park them behind it; here their application can wait.

    Raises:
        WaitsForError, PredecessorLost.
    """
    if not lost_rows.any_parked(connection, site_id):
        return
    steps = Steps(units=[unit])
    found = footprint.relations(connection, site_id, steps.changed, steps.rows)
    relations = [one for one in found.values() if one.certain]
    if any(one.lost for one in relations):
        raise PredecessorLost(f"{error_dependencies.LOST} At {master}.", master=master)
    if relations:
        waits_for = sorted({n for one in relations for n in one.error_ids})
        numbers = ", ".join(map(str, waits_for))
        raise WaitsForError(
            f"The change depends on error transaction {numbers} at {master}.",
            waits_for=waits_for,
            master=master,
        )
