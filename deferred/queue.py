"""The queue of an updatable snapshot: where its calls stand until they are covered.

A call is written by a trigger in the user's own transaction. It is *delivered*
when the destination has applied or parked its transaction, and *covered* when
a refresh has seen the destination's answer; then it may be purged.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, and_, func, select

from deferred import captured, views
from deferred.catalog import delivery, destination, procedure_call
from deferred.catalog import queue as queue_catalog
from deferred.errors import QueueNotEmpty
from deferred.work import described
from masters.errors import UnknownColumn
from masters.snapshot_log import ROWID
from sites import QualifiedName, locks, names, triggers, wide
from sites.catalog import SCHEMA
from sites.errors import UnknownTable
from sites.table import Column, Table
from sites.types import NativeType, Xid8


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """One queue, as the catalog describes it."""

    id: int
    snapshot: str
    base_schema: str
    base_table: str
    queue_table: str
    extra_table: str
    destination: str
    target_schema: str
    target_table: str
    columns: tuple[str, ...]
    identity_columns: tuple[str, ...]
    #: the target has columns that are not carried
    partial: bool
    #: its changes go to the master in the user's own transaction
    synchronous: bool = False

    @property
    def base(self) -> QualifiedName:
        """The snapshot's base table."""
        return QualifiedName(self.base_schema, self.base_table)

    @property
    def target(self) -> QualifiedName:
        """The master table."""
        return QualifiedName(self.target_schema, self.target_table)

    def sql(self) -> sa.TableClause:
        """The queue table for use in statements."""
        images: list[sa.ColumnClause[Any]] = [
            sa.column(name)
            for side in ("o", "n")
            for name in triggers.numbered(side, self.columns)
        ]
        fixed = [
            sa.column("xid", Xid8()),
            *map(sa.column, ("call_no", "kind", "moved")),
        ]
        return sa.table(self.queue_table, *fixed, *images, schema=SCHEMA)

    def keys(self, calls: sa.FromClause) -> list[ColumnElement[Any]]:
        """The identity of a call's row, labelled k1, k2, ..."""
        positions = [self.columns.index(name) + 1 for name in self.identity_columns]
        return [
            func.coalesce(calls.c[f"o{at}"], calls.c[f"n{at}"]).label(f"k{n}")
            for n, at in enumerate(positions, 1)
        ]


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

    Writes the queue table, its triggers, the catalog, and what shows calls.

    Parameters:
        columns: of the base table, to be carried; generated ones are not.
        identity: the columns among them that identify a row.
        partial: the master has columns that are not carried.
        refuse_new_keys: a change of key would lose what the master has in them.
        synchronous: refuse changes outside coordinated transactions.
    """
    table = names.derived("def$_", names.parse(snapshot))
    _create_table(connection, table, base, columns)
    triggers.install_queue(
        connection,
        triggers.QueueCapture(
            table=base,
            view=names.parse(snapshot),
            queue=table,
            destination=destination,
            extra=extra_table,
            identity=tuple(identity),
            columns=tuple(columns),
            refuse_new_keys=refuse_new_keys,
            synchronous=synchronous,
        ),
    )
    connection.execute(
        sa.insert(queue_catalog).values(
            snapshot=snapshot,
            base_schema=base.schema,
            base_table=base.name,
            queue_table=table,
            extra_table=extra_table,
            destination=destination,
            target_schema=target.schema,
            target_table=target.name,
            columns=list(columns),
            identity_columns=list(identity),
            partial=partial,
            synchronous=synchronous,
        )
    )
    _know_destination(connection, destination)
    _show_calls(connection)
    created = find_queue(connection, snapshot)
    assert created is not None
    return created


def lock_writers(connection: Connection, queues: Sequence[Queue]) -> None:
    """Wait for those who write to the snapshots, and let no other begin."""
    for queue in queues:
        locks.against_writers(connection, queue.base)


def set_synchronous(connection: Connection, queue: Queue, *, synchronous: bool) -> None:
    """Refuse changes outside coordinated transactions from now on, or take them again.

    Call it behind `lock_writers`. Writes the catalog, the trigger's function, and
    what shows calls.

    Raises:
        UnknownTable, UnknownColumn: the base table, or one of its columns, is gone.
    """
    capture = _capture(connection, queue, synchronous=synchronous)
    triggers.replace_queue_function(connection, capture)
    connection.execute(
        sa.update(queue_catalog)
        .where(queue_catalog.c.id == queue.id)
        .values(synchronous=synchronous)
    )
    _show_calls(connection)


def replace_functions(connection: Connection) -> None:
    """Have all queues record as this version of the program does.

    One whose base table has lost a column stays as it is: `snaptide doctor` finds it.
    """
    for queue in list_queues(connection):
        with suppress(UnknownTable, UnknownColumn):
            capture = _capture(connection, queue, synchronous=queue.synchronous)
            triggers.replace_queue_function(connection, capture)
    _show_calls(connection)


def drop_queue(connection: Connection, snapshot: str, *, force: bool = False) -> None:
    """Stop queueing a snapshot's changes, and forget its calls.

    Raises:
        QueueNotEmpty: calls are not delivered yet, and `force` is not set.
    """
    found = find_queue(connection, snapshot)
    if found is None:
        return
    waiting = undelivered_calls(connection, found)
    if waiting and not force:
        raise QueueNotEmpty(
            f"{waiting} calls of snapshot {snapshot} are not delivered yet.",
            snapshot=snapshot,
            calls=waiting,
        )
    connection.execute(sa.delete(queue_catalog).where(queue_catalog.c.id == found.id))
    _show_calls(connection)
    triggers.remove(connection, found.queue_table)
    wide.drop(connection, QualifiedName(SCHEMA, found.queue_table))


def list_queues(connection: Connection, destination: str | None = None) -> list[Queue]:
    """All queues of a site, or those to one destination."""
    wanted = select(*(queue_catalog.c[name] for name in Queue.__slots__))
    if destination is not None:
        wanted = wanted.where(queue_catalog.c.destination == destination)
    return [_from_row(row) for row in connection.execute(wanted.order_by("id"))]


def find_queue(connection: Connection, snapshot: str) -> Queue | None:
    """The queue of a snapshot; None for a read-only one."""
    return next((q for q in list_queues(connection) if q.snapshot == snapshot), None)


def undelivered_calls(connection: Connection, queue: Queue) -> int:
    """How many calls of a queue the destination has not answered, as far as known."""
    calls = queue.sql()
    counted = (
        select(func.count())
        .select_from(calls.outerjoin(delivery, delivery_of(queue, calls)))
        .where(delivery.c.delivered_at.is_(None))
    )
    return connection.scalar(counted) or 0


def call_numbers(
    connection: Connection, destination: str | None = None
) -> list[sa.Select[Any]]:
    """Where calls are queued: xid and call_no of all to a destination, or to any.

    One statement for each queue, and one for procedures that are called.
    """
    tables = [queue.sql() for queue in list_queues(connection, destination)]
    called = select(procedure_call.c.xid, procedure_call.c.call_no)
    if destination is not None:
        to = procedure_call.c.destinations
        called = called.where(sa.literal(destination) == func.any(to))
    return [*(select(table.c.xid, table.c.call_no) for table in tables), called]


def delivery_of(queue: Queue, calls: sa.TableClause) -> ColumnElement[bool]:
    """Joins a queue's calls with what is known of their transactions' delivery."""
    return and_(
        delivery.c.destination == queue.destination, delivery.c.xid == calls.c.xid
    )


def _create_table(
    connection: Connection, name: str, base: Table, columns: Sequence[str]
) -> None:
    images = [
        sa.Column(recorded, _image_type(base.column(column)))
        for side in ("o", "n")
        for recorded, column in zip(
            triggers.numbered(side, columns), columns, strict=True
        )
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


def _show_calls(connection: Connection) -> None:
    """Let people and coordinators see the calls of exactly the present queues."""
    queues = list_queues(connection)
    views.replace_defcall(connection, queues)
    views.replace_defload(connection, queues)
    captured.replace_captured_calls(connection, queues)


def _image_type(column: Column) -> NativeType:
    """The collation comes along: it may say which keys are equal."""
    collated = f" COLLATE {column.collation}" if column.collation else ""
    return NativeType(column.recorded + collated)


def _capture(
    connection: Connection, queue: Queue, *, synchronous: bool
) -> triggers.QueueCapture:
    return triggers.QueueCapture(
        table=described(connection, queue.base, queue.columns),
        view=names.parse(queue.snapshot),
        queue=queue.queue_table,
        destination=queue.destination,
        extra=queue.extra_table,
        identity=queue.identity_columns,
        columns=queue.columns,
        refuse_new_keys=queue.partial and queue.identity_columns != (ROWID,),
        synchronous=synchronous,
    )


def _know_destination(connection: Connection, name: str) -> None:
    known = select(destination.c.name).where(destination.c.name == name)
    if connection.scalar(known) is None:
        connection.execute(
            sa.insert(destination).values(
                name=name, window_end=func.pg_current_snapshot()
            )
        )


def _from_row(row: sa.Row[Any]) -> Queue:
    values = dict(row._mapping)
    for name in ("columns", "identity_columns"):
        values[name] = tuple(values[name])
    return Queue(**values)
