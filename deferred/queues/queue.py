"""The queue of an updatable snapshot: where its calls stand until they are covered.

A call is written by a trigger in the user's own transaction. It is *delivered*
when the destination has applied or parked its transaction, and *covered* when
a refresh has seen the destination's answer; then it may be purged.

A table of a replication group has such a queue at each master, for several
destinations (`deferred.queues.group_queue`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, and_, cast, func, select
from sqlalchemy.dialects.postgresql import aggregate_order_by

from deferred.catalog import (
    deferred_transaction,
    delivery,
    destination,
    procedure_call,
    route,
)
from deferred.catalog import queue as queue_catalog
from deferred.errors import QueueNotEmpty
from deferred.queues import captured, views
from deferred.queues.described import described
from masters.errors import UnknownColumn
from masters.snapshot_log import ROWID
from sites import QualifiedName, locks, names, position, triggers, wide
from sites.catalog import SCHEMA
from sites.errors import UnknownTable
from sites.table import Column, Table
from sites.types import NativeType, Xid8


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """One queue on its way to one destination, as the catalog describes it."""

    id: int
    snapshot: str
    base_schema: str
    base_table: str
    queue_table: str
    #: None for a table of a group, which nothing refreshes
    extra_table: str | None
    destination: str
    target_schema: str
    target_table: str
    columns: tuple[str, ...]
    identity_columns: tuple[str, ...]
    #: the target has columns that are not carried
    partial: bool
    #: its changes go to the master in the user's own transaction
    synchronous: bool = False
    #: of a table at one of its masters; None for a snapshot
    replication_group: str | None = None
    #: what becomes of a transaction that cannot be applied, see `options.ErrorAction`
    error_action: str = "queue"
    #: the masters whose changes go to this destination; '' is this one
    sources: tuple[str, ...] = ("",)
    #: of each of them, the position from which on they go there
    since: tuple[str, ...] = (position.START,)

    @property
    def base(self) -> QualifiedName:
        """The snapshot's base table."""
        return QualifiedName(self.base_schema, self.base_table)

    @property
    def view(self) -> QualifiedName:
        """What keeps the columns that are carried: PostgreSQL drops none below it."""
        if self.replication_group is None:
            return names.parse(self.snapshot)
        return group_view(self.base)

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

    def goes_there(self, xid: ColumnElement[Any]) -> ColumnElement[bool]:
        """Whether the calls of a transaction go to this destination.

        In a group it depends on the master at which the transaction began, and on
        whether its changes went there already then.
        """
        if self.replication_group is None:
            return sa.true()
        began = deferred_transaction.c.sources[self.replication_group].astext
        ways = [
            and_(
                func.coalesce(began, "").in_(
                    s
                    for s, at in zip(self.sources, self.since, strict=True)
                    if at == since
                ),
                position.after(xid, since),
            )
            for since in dict.fromkeys(self.since)
        ]
        return sa.exists().where(deferred_transaction.c.xid == xid, sa.or_(*ways))

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
    create_table(connection, table, base, columns)
    triggers.install_queue(
        connection,
        triggers.QueueCapture(
            table=base,
            view=names.parse(snapshot),
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
            base_schema=base.schema,
            base_table=base.name,
            queue_table=table,
            extra_table=extra_table,
            target_schema=target.schema,
            target_table=target.name,
            columns=list(columns),
            identity_columns=list(identity),
            partial=partial,
            synchronous=synchronous,
        )
        .returning(queue_catalog.c.id)
    )
    connection.execute(
        sa.insert(route).values(queue_id=queue_id, destination=destination)
    )
    know_destination(connection, destination)
    show_calls(connection)
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
    capture = capture_of(connection, queue, synchronous=synchronous)
    triggers.replace_queue_function(connection, capture)
    connection.execute(
        sa.update(queue_catalog)
        .where(queue_catalog.c.id == queue.id)
        .values(synchronous=synchronous)
    )
    show_calls(connection)


def replace_functions(connection: Connection) -> None:
    """Have all queues record as this version of the program does.

    One whose base table has lost a column stays as it is: `snaptide doctor` finds it.
    """
    for queue in list_queues(connection):
        with suppress(UnknownTable, UnknownColumn):
            capture = capture_of(connection, queue, synchronous=queue.synchronous)
            triggers.replace_queue_function(connection, capture)
    show_calls(connection)


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
    show_calls(connection)
    triggers.remove(connection, found.queue_table)
    wide.drop(connection, QualifiedName(SCHEMA, found.queue_table))


def group_view(table: QualifiedName) -> QualifiedName:
    """The view of a group's table, below which no column that is carried goes away."""
    return QualifiedName(SCHEMA, names.derived("group$_", table))


def list_queues(connection: Connection, destination: str | None = None) -> list[Queue]:
    """All queues of a site, once for each of their destinations, or those to one."""
    stored = [queue_catalog.c[n] for n in Queue.__slots__ if n in queue_catalog.c]
    wanted = (
        select(
            *stored,
            route.c.destination,
            _in_order(route.c.source).label("sources"),
            _in_order(cast(route.c.since, sa.Text)).label("since"),
        )
        .join(route, route.c.queue_id == queue_catalog.c.id)
        .group_by(queue_catalog.c.id, route.c.destination)
        .order_by(queue_catalog.c.id, route.c.destination)
    )
    if destination is not None:
        wanted = wanted.where(route.c.destination == destination)
    return [_from_row(row) for row in connection.execute(wanted)]


def find_queue(connection: Connection, snapshot: str) -> Queue | None:
    """The queue of a snapshot; None for a read-only one."""
    return next((q for q in list_queues(connection) if q.snapshot == snapshot), None)


def undelivered_calls(connection: Connection, queue: Queue) -> int:
    """How many calls of a queue the destination has not answered, as far as known."""
    calls = queue.sql()
    counted = (
        select(func.count())
        .select_from(calls.outerjoin(delivery, delivery_of(queue, calls)))
        .where(delivery.c.delivered_at.is_(None), queue.goes_there(calls.c.xid))
    )
    return connection.scalar(counted) or 0


def call_numbers(
    connection: Connection, destination: str | None = None
) -> list[sa.Select[Any]]:
    """Where calls are queued: xid and call_no of all to a destination, or to any.

    One statement for each queue, and one for procedures that are called.
    """
    queues = list_queues(connection, destination)
    tables = [(queue, queue.sql()) for queue in queues]
    called = select(procedure_call.c.xid, procedure_call.c.call_no)
    if destination is not None:
        to = procedure_call.c.destinations
        called = called.where(sa.literal(destination) == func.any(to))
    queued = [
        select(calls.c.xid, calls.c.call_no).where(queue.goes_there(calls.c.xid))
        for queue, calls in tables
    ]
    return [*queued, called]


def delivery_of(queue: Queue, calls: sa.TableClause) -> ColumnElement[bool]:
    """Joins a queue's calls with what is known of their transactions' delivery."""
    return and_(
        delivery.c.destination == queue.destination, delivery.c.xid == calls.c.xid
    )


def pause_destination(connection: Connection, name: str, *, paused: bool) -> None:
    """Push nothing to a destination, or again."""
    mine = destination.c.name == name
    connection.execute(sa.update(destination).where(mine).values(disabled=paused))


def create_table(
    connection: Connection, name: str, base: Table, columns: Sequence[str]
) -> None:
    """Create the table that calls are written to."""
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


def show_calls(connection: Connection) -> None:
    """Let people and coordinators see the calls of exactly the present queues."""
    queues = list_queues(connection)
    views.replace_defcall(connection, queues)
    views.replace_defload(connection, queues)
    mine = [one for one in queues if one.replication_group is None]
    captured.replace_captured_calls(connection, mine)


def _image_type(column: Column) -> NativeType:
    """The collation comes along: it may say which keys are equal."""
    collated = f" COLLATE {column.collation}" if column.collation else ""
    return NativeType(column.recorded + collated)


def capture_of(
    connection: Connection, queue: Queue, *, synchronous: bool = False
) -> triggers.QueueCapture:
    """What the triggers of a queue record.

    Raises:
        UnknownTable, UnknownColumn: the table, or one of its columns, is gone.
    """
    mine = route.c.queue_id == queue.id
    forwarded = select(route.c.source).where(mine).distinct()
    own = select(route.c.destination).where(mine, route.c.source == "")
    return triggers.QueueCapture(
        table=described(connection, queue.base, queue.columns),
        view=queue.view,
        queue=queue.queue_table,
        destinations=tuple(connection.scalars(own.order_by("destination"))),
        extra=queue.extra_table,
        identity=queue.identity_columns,
        columns=queue.columns,
        refuse_new_keys=queue.partial and queue.identity_columns != (ROWID,),
        synchronous=synchronous,
        group=queue.replication_group,
        forwarded=tuple(connection.scalars(forwarded.order_by(route.c.source))),
    )


def know_destination(connection: Connection, name: str) -> None:
    """Have a destination's windows begin now, if it has none yet."""
    known = select(destination.c.name).where(destination.c.name == name)
    if connection.scalar(known) is None:
        connection.execute(
            sa.insert(destination).values(
                name=name, window_end=func.pg_current_snapshot()
            )
        )


def _in_order(value: ColumnElement[Any]) -> ColumnElement[Any]:
    return func.array_agg(aggregate_order_by(value, route.c.source))


def _from_row(row: sa.Row[*tuple[Any, ...]]) -> Queue:
    values = dict(row._mapping)
    for name in ("columns", "identity_columns", "sources", "since"):
        values[name] = tuple(values[name])
    return Queue(**values)
