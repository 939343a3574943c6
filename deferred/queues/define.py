"""Creating, altering and dropping queues, and the destinations that they go to."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace

import sqlalchemy as sa
from sqlalchemy import Connection, func, select
from sqlalchemy.dialects.postgresql import insert

from deferred.catalog import destination, route
from deferred.catalog import queue as queue_catalog
from deferred.errors import QueueNotEmpty
from deferred.queues import captured, queue_function, views
from deferred.queues.queue import Queue, find_queue, list_queues, undelivered_calls
from deferred.queues.queue_function import QueueCapture
from deferred.queues.target_columns import called_now, described
from masters.errors import UnknownColumn
from masters.log.snapshot_log import ROWID
from sites import QualifiedName, names
from sites.capture import triggers
from sites.catalog import SCHEMA
from sites.errors import UnknownTable
from sites.tables import locks, wide
from sites.tables.table import Column, Table, describe
from sites.transfer.types import NativeType, Xid8
from sites.transfer.values import unsized
from sites.words import counted, does


def create_queue(
    connection: Connection,
    *,
    snapshot: str,
    base: Table,
    destination: str,
    target: QualifiedName,
    columns: Sequence[str],
    identity: Sequence[str],
    partial: bool,
    extra_table: str,
    refuse_new_keys: bool,
    synchronous: bool = False,
) -> Queue:
    """Queue the changes of a snapshot's base table from now on.

    Writes the queue table, its triggers, the catalog, and the views of calls.

    Parameters:
        columns: the base table's columns to carry, without generated ones.
        identity: the columns among them that identify a row.
        partial: the master has columns that are not carried.
        refuse_new_keys: a change of key would lose the master's values in them.
        synchronous: refuse changes outside coordinated transactions.
    """
    table = names.derived(queue_function.PREFIX, names.parse(snapshot))
    create_table(connection, table, base, columns)
    queue_function.install(
        connection,
        QueueCapture(
            table=base,
            queue=table,
            destinations=(destination,),
            extra=extra_table,
            identity=tuple(identity),
            columns=tuple(columns),
            refuse_new_keys=refuse_new_keys,
            synchronous=synchronous,
        ),
    )
    queue_id = connection.scalar(
        sa.insert(queue_catalog)
        .values(
            snapshot=snapshot,
            queue_table=table,
            extra_table=extra_table,
            partial=partial,
            synchronous=synchronous,
            **_of_tables(base, target, columns, identity),
        )
        .returning(queue_catalog.c.id)
    )
    connection.execute(
        sa.insert(route).values(queue_id=queue_id, destination=destination)
    )
    know_destinations(connection, destination)
    show_calls(connection)
    created = find_queue(connection, snapshot)
    assert created is not None
    return created


def _of_tables(
    base: Table,
    target: QualifiedName,
    columns: Sequence[str],
    identity: Sequence[str],
) -> dict[str, object]:
    """What the catalog says about the tables of a queue, and their columns."""
    return {
        "base_schema": base.schema,
        "base_table": base.name,
        "target_schema": target.schema,
        "target_table": target.name,
        "columns": list(columns),
        "column_numbers": [base.column(name).number for name in columns],
        "identity_columns": list(identity),
    }


def drop_queue(connection: Connection, snapshot: str, *, force: bool = False) -> None:
    """Stop queueing a snapshot's changes, and delete its calls.

    Raises:
        QueueNotEmpty: calls are not delivered yet, and `force` is not set.
    """
    found = find_queue(connection, snapshot)
    if found is None:
        return
    waiting = undelivered_calls(connection, found)
    if waiting and not force:
        raise QueueNotEmpty(
            f"{counted(waiting, 'call')} of snapshot {snapshot} "
            f"{does(waiting, 'are')} not delivered yet.",
            snapshot=snapshot,
            calls=waiting,
        )
    connection.execute(sa.delete(queue_catalog).where(queue_catalog.c.id == found.id))
    show_calls(connection)
    triggers.remove(connection, found.queue_table)
    wide.drop(connection, QualifiedName(SCHEMA, found.queue_table))


def set_synchronous(connection: Connection, queue: Queue, *, synchronous: bool) -> None:
    """Refuse changes outside coordinated transactions from now on, or take them again.

    Call it after `lock_writers`. Writes the catalog, the trigger's function, and the
    views of calls.

    Raises:
        UnknownTable, UnknownColumn: the base table, or one of its columns, is gone.
    """
    locks.wait_turn(connection, WORK)
    capture = capture_of(connection, queue, synchronous=synchronous)
    queue_function.replace(connection, capture)
    connection.execute(
        sa.update(queue_catalog)
        .where(queue_catalog.c.id == queue.id)
        .values(synchronous=synchronous)
    )
    show_calls(connection)


def lock_writers(connection: Connection, queues: Sequence[Queue]) -> None:
    """Wait for sessions that write to the snapshots, and block new writers."""
    for queue in queues:
        locks.against_writers(connection, queue.base)


def replace_functions(connection: Connection) -> None:
    """Replace the trigger functions of all queues by those of this program version.

    A queue whose base table has lost a column stays as it is: `snaptide doctor` finds
    it. Waits for transactions that alter queues, and keeps others out: it would take
    back what they write.
    """
    locks.wait_turn(connection, WORK)
    for found in list_queues(connection):
        with suppress(UnknownTable, UnknownColumn):
            queue = _numbered(connection, found)
            capture = capture_of(connection, queue, synchronous=queue.synchronous)
            queue_function.replace(connection, capture)
    captured.drop_captured_calls(connection)
    show_calls(connection)


def _numbered(connection: Connection, queue: Queue) -> Queue:
    """The queue with the numbers that its columns have in this database.

    Loading a dump gives tables new numbers, and columns too if some were dropped. Then
    the function still has the table's old number, and the columns are found by name.

    Raises:
        UnknownTable, UnknownColumn: the base table, or one of its columns, is gone.
    """
    table = described(connection, queue.base, ())
    if queue_function.is_made_for(connection, queue.queue_table, table.oid):
        return queue
    table = described(connection, queue.base, queue.columns)
    numbers = [table.column(name).number for name in queue.columns]
    connection.execute(
        sa.update(queue_catalog)
        .where(queue_catalog.c.id == queue.id)
        .values(column_numbers=numbers)
    )
    return replace(queue, column_numbers=tuple(numbers))


def know_destinations(connection: Connection, *names: str) -> None:
    """Insert destinations, with windows that begin now, if they are not known yet."""
    now = func.pg_current_snapshot()
    rows = [{"name": name, "window_end": now} for name in sorted({*names})]
    connection.execute(insert(destination).values(rows).on_conflict_do_nothing())


def create_table(
    connection: Connection, name: str, base: Table, columns: Sequence[str]
) -> None:
    """Create the table that calls are written to."""
    images = [
        sa.Column(recorded, image_type(base.column(column)))
        for side in ("o", "n")
        for recorded, column in zip(names.numbered(side, columns), columns, strict=True)
    ]
    table = sa.Table(
        name,
        sa.MetaData(),
        sa.Column("call_no", sa.BigInteger, nullable=False),
        sa.Column("xid", Xid8(), nullable=False, index=True),
        sa.Column("kind", NativeType('"char"'), nullable=False),
        sa.Column("moved", sa.Boolean, nullable=False),
        schema=SCHEMA,
    )
    wide.create(connection, table, images, wide=wide.overflows(base, columns))


#: The work of who makes or alters queues, and replaces the views of calls. A list of
#: queues that is read before one's turn may be older than what others have written.
WORK = "snaptide.queues"


def in_turn(connection: Connection) -> AbstractContextManager[None]:
    """Keep other sessions from `show_calls` while the block runs.

    A transaction that reads as of one moment has to begin in such a block: it would
    wait for the others and not see their queues even so.

    Parameters:
        connection: outside of a transaction.
    """
    return locks.session_lock(connection, locks.lock_on(WORK))


def show_calls(connection: Connection, without: Queue | None = None) -> None:
    """Make the views and `captured_calls` show calls of exactly the present queues.

    Waits until other transactions that do so have ended, to see their queues.

    Parameters:
        without: a queue that is left out, while it is altered.
    """
    locks.wait_turn(connection, WORK)
    gone = None if without is None else without.id
    queues = [one for one in list_queues(connection) if one.id != gone]
    views.replace_defcall(connection, queues)
    views.replace_defload(connection, queues)
    mine = [one for one in queues if one.group_id is None]
    captured.replace_captured_calls(connection, mine)


def capture_of(
    connection: Connection, queue: Queue, *, synchronous: bool = False
) -> QueueCapture:
    """What the triggers of a queue have to record.

    Raises:
        UnknownTable, UnknownColumn: the table, or one of its columns, is gone.
    """
    mine = route.c.queue_id == queue.id
    forwarded = select(route.c.source).where(mine).distinct()
    own = select(route.c.destination).where(mine, route.c.source == "")
    return _capture(
        describe(connection, queue.base),
        queue,
        tuple(connection.scalars(own.order_by("destination"))),
        tuple(connection.scalars(forwarded.order_by(route.c.source))),
        synchronous=synchronous,
    )


def capture_along(table: Table, ways: Sequence[Queue]) -> QueueCapture:
    """The same for a queue of a group's table as it is listed.

    Parameters:
        table: the table as it is now.
        ways: the queue, once for each of its destinations.

    Raises:
        UnknownColumn: one of its columns is gone.
    """
    own = sorted(way.destination for way in ways if "" in way.sources)
    forwarded = sorted({source for way in ways for source in way.sources})
    return _capture(table, ways[0], tuple(own), tuple(forwarded), synchronous=False)


def _capture(
    table: Table,
    queue: Queue,
    destinations: tuple[str, ...],
    forwarded: tuple[str, ...],
    *,
    synchronous: bool,
) -> QueueCapture:
    called = called_now(table, queue)
    return QueueCapture(
        table=table,
        queue=queue.queue_table,
        destinations=destinations,
        extra=queue.extra_table,
        identity=tuple(called[name] for name in queue.identity_columns),
        columns=tuple(called[name] for name in queue.columns),
        refuse_new_keys=queue.partial and queue.identity_columns != (ROWID,),
        synchronous=synchronous,
        group=None if queue.group_id is None else str(queue.group_id),
        forwarded=forwarded,
    )


def image_type(column: Column) -> NativeType:
    """The type of a column's images: its own without a length, and with its collation.

    If a user makes the column longer later, the queue must neither cut nor refuse
    values. The collation may decide which keys are equal.
    """
    collated = f" COLLATE {column.collation}" if column.collation else ""
    return NativeType(unsized(column.recorded) + collated)
