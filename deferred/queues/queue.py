"""The queue of an updatable snapshot, which keeps its calls until they are covered.

A call is written by a trigger in the user's own transaction. It is *delivered*
when the destination has applied or parked its transaction, and *covered* when
a refresh has seen the destination's answer; then it may be purged.

A table of a replication group has such a queue at each master, for several
destinations (`groups.table_queue`).
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, and_, cast, func, select
from sqlalchemy.dialects.postgresql import aggregate_order_by

from deferred.catalog import (
    batch,
    deferred_transaction,
    delivery,
    procedure_call,
    route,
)
from deferred.catalog import queue as queue_catalog
from sites import QualifiedName, names
from sites.capture import position
from sites.catalog import SCHEMA
from sites.sessions.prepared import Prepared
from sites.tables.table import Table, with_tuples
from sites.transfer.types import Xid8

#: A process keeps what views and functions say of so many queues, written out.
MOST_WRITTEN = 1000


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
    #: by the target's names
    columns: tuple[str, ...]
    #: their numbers in the base table, whatever their names are now
    column_numbers: tuple[int, ...]
    identity_columns: tuple[str, ...]
    #: the target has columns that are not carried
    partial: bool
    #: its changes go to the master in the user's own transaction
    synchronous: bool = False
    #: the group of a table at one of its masters; None for a snapshot
    group_id: uuid.UUID | None = None
    #: what a push does with a transaction that fails, see `options.ErrorAction`
    error_action: str = "queue"
    #: the target and its columns by their numbers, as the last refresh saw them
    target_oid: int | None = None
    target_numbers: tuple[int, ...] | None = None
    #: the types that its columns have in the base table; None if not PostgreSQL's own
    types: tuple[str | None, ...] = ()
    #: the masters whose changes go to this destination; '' is this one
    sources: tuple[str, ...] = ("",)
    #: for each of them, the position after which its changes go there
    since: tuple[str, ...] = (position.START,)

    @property
    def base(self) -> QualifiedName:
        """The snapshot's base table."""
        return QualifiedName(self.base_schema, self.base_table)

    @property
    def target(self) -> QualifiedName:
        """The master table."""
        return QualifiedName(self.target_schema, self.target_table)

    def is_made_for(self, target: Table) -> bool:
        """Whether its calls were made for the columns that a table has now."""
        there = {column.name: column.number for column in target.columns}
        now = tuple(map(there.get, self.columns))
        return (self.target_oid, self.target_numbers) == (target.oid, now)

    def taken(self, target: Table, carried: Sequence[str]) -> tuple[str, ...]:
        """The carried columns that a table takes values of: it computes the others.

        A value for one of the others has no place to go, as if the column were gone.
        """
        return tuple(
            name
            for name in carried
            if name in self.identity_columns or not target.column(name).generated
        )

    def sql(self) -> sa.TableClause:
        """The queue table for use in statements."""
        images: list[sa.ColumnClause[Any]] = [
            sa.column(name)
            for side in ("o", "n")
            for name in names.numbered(side, self.columns)
        ]
        fixed = [
            sa.column("xid", Xid8()),
            *map(sa.column, ("call_no", "kind", "moved")),
        ]
        return sa.table(self.queue_table, *fixed, *images, schema=SCHEMA)

    @property
    def extra(self) -> sa.TableClause | None:
        """The snapshot's table of extra keys, for use in statements."""
        if self.extra_table is None:
            return None
        return extra_keys(self.extra_table, self.identity_columns)

    def goes_there(self, xid: ColumnElement[Any]) -> ColumnElement[bool]:
        """Whether the calls of a transaction go to this destination.

        In a group it depends on the master at which the transaction began, and on
        whether that master's route to the destination already existed then.
        """
        if self.group_id is None:
            return sa.true()
        # An alias, because the caller's query may read deferred_transaction too.
        made = deferred_transaction.alias("made_where").c
        began = made.sources[str(self.group_id)].astext
        routes = [
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
        return sa.exists().where(made.xid == xid, sa.or_(*routes))

    def keys(self, calls: sa.FromClause) -> list[ColumnElement[Any]]:
        """The identity of a call's row before the change, labelled k1, k2, ..."""
        return [
            func.coalesce(calls.c[f"o{at}"], calls.c[f"n{at}"]).label(f"k{n}")
            for n, at in enumerate(self._positions, 1)
        ]

    def new_keys(self, calls: sa.FromClause) -> list[ColumnElement[Any]]:
        """The identity that a call gives to its row, labelled alike."""
        return [
            calls.c[f"n{at}"].label(f"k{n}") for n, at in enumerate(self._positions, 1)
        ]

    def every_key(self, calls: sa.FromClause) -> list[sa.Select[Any]]:
        """Select the keys of calls; both keys of a call that changes a key."""
        return [
            select(*self.keys(calls)).select_from(calls),
            select(*self.new_keys(calls)).select_from(calls).where(changes_key(calls)),
        ]

    @property
    def _positions(self) -> list[int]:
        return [self.columns.index(name) + 1 for name in self.identity_columns]


def changes_key(calls: sa.FromClause) -> ColumnElement[bool]:
    """Whether a call changes the key of its row.

    If the trigger could not pair the images, and in queues older than this version, a
    change of key is a delete and an insert, both marked as moved.
    """
    return and_(calls.c.moved, func.upper(cast(calls.c.kind, sa.Text)) == "U")


def extra_keys(table: str, identity: Sequence[str]) -> sa.TableClause:
    """The table of keys that a refresh of a snapshot has to look at besides its calls.

    Parameters:
        table: its name, in our schema.
        identity: the columns that identify the snapshot's rows.
    """
    return sa.table(
        table,
        *map(sa.column, names.numbered("k", identity)),
        sa.column("reason", sa.Text),
        sa.column("xid", Xid8()),
        sa.column("batch_no", sa.BigInteger),
        sa.column("order_no", sa.BigInteger),
        sa.column("master_xid", Xid8()),
        schema=SCHEMA,
    )


def group_view(table: QualifiedName) -> QualifiedName:
    """The view over a group's table that protects carried columns from DROP COLUMN."""
    return QualifiedName(SCHEMA, names.derived("group$_", table))


def list_queues(connection: Connection, destination: str | None = None) -> list[Queue]:
    """All queues of a site, once for each of their destinations, or those to one."""
    rows = (
        _ALL.run(connection)
        if destination is None
        else _TO_ONE.run(connection, to=destination)
    )
    return [Queue(**with_tuples(row._mapping)) for row in rows]


def find_queue(connection: Connection, snapshot: str) -> Queue | None:
    """The queue of a snapshot; None for a read-only one."""
    return next((q for q in list_queues(connection) if q.snapshot == snapshot), None)


def undelivered_calls(connection: Connection, queue: Queue) -> int:
    """How many calls of a queue the destination has not answered, as far as known."""
    calls = queue.sql()
    counted = (
        select(func.count())
        .select_from(calls.outerjoin(delivery, delivery_of(queue, calls)))
        .where(sa.not_(is_delivered()), queue.goes_there(calls.c.xid))
    )
    return connection.scalar(counted) or 0


def undelivered_procedures(connection: Connection, destination: str) -> int:
    """How many calls of procedures a destination has not answered, as far as known."""
    call = procedure_call.c
    answered = sa.exists().where(
        delivery.c.destination == destination,
        delivery.c.xid == call.xid,
        is_delivered(),
    )
    counted = select(func.count()).where(
        sa.literal(destination) == func.any(call.destinations), sa.not_(answered)
    )
    return connection.scalar(counted) or 0


def goes_to(destination: ColumnElement[str]) -> ColumnElement[bool]:
    """Whether any queue or procedure call of this site goes to a destination.

    The row of a destination that nothing goes to stays: something may go there again.
    """
    return sa.or_(
        sa.exists().where(route.c.destination == destination),
        sa.exists().where(destination == func.any(procedure_call.c.destinations)),
    )


def call_numbers(
    connection: Connection, destination: str | None = None
) -> list[sa.Select[Any]]:
    """Selects of xid and call_no of all calls to a destination, or to any.

    One select for each queue, and one for procedure calls.
    """
    return call_numbers_of(list_queues(connection, destination), destination)


def call_numbers_of(
    queues: Sequence[Queue], destination: str | None
) -> list[sa.Select[Any]]:
    """The same for given queues."""
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
    """The condition that joins a queue's calls with their transactions' delivery."""
    return and_(
        delivery.c.destination == queue.destination, delivery.c.xid == calls.c.xid
    )


def _in_order(value: ColumnElement[Any]) -> ColumnElement[Any]:
    return func.array_agg(aggregate_order_by(value, route.c.source))


#: The base table's columns are looked up by their numbers. How a type of users is
#: printed depends on the session.
_TYPES = sa.literal_column(
    """ARRAY(SELECT CASE WHEN t.typnamespace = 'pg_catalog'::regnamespace
                        THEN format_type(a.atttypid, a.atttypmod) END
      FROM unnest(queue.column_numbers) WITH ORDINALITY AS n(number, place)
      LEFT JOIN pg_attribute a ON a.attnum = n.number AND NOT a.attisdropped
        AND a.attrelid = to_regclass(format('%I.%I', queue.base_schema,
                                            queue.base_table))
      LEFT JOIN pg_type t ON t.oid = a.atttypid
      ORDER BY n.place)""".replace("queue.", f"{SCHEMA}.queue."),
    sa.ARRAY(sa.Text),
).label("types")

_EVERY = (
    select(
        *(queue_catalog.c[n] for n in Queue.__slots__ if n in queue_catalog.c),
        _TYPES,
        route.c.destination,
        _in_order(route.c.source).label("sources"),
        _in_order(cast(route.c.since, sa.Text)).label("since"),
    )
    .join(route, route.c.queue_id == queue_catalog.c.id)
    .group_by(queue_catalog.c.id, route.c.destination)
    .order_by(queue_catalog.c.id, route.c.destination)
)
_ALL = Prepared(_EVERY)
_TO_ONE = Prepared(
    _EVERY.where(route.c.destination == sa.bindparam("to", type_=sa.Text))
)


def is_delivered(of: sa.FromClause = delivery) -> ColumnElement[bool]:
    """Whether the destination of a delivery has answered it, as far as known.

    False without a delivery, as where none is joined: then it is in no window yet.

    Parameters:
        of: deliveries.
    """
    return _answered(of).correlate_except(batch).exists()


def delivered_before(age: timedelta) -> ColumnElement[bool]:
    """Whether that is so, and the last answer to its batch is older than an age."""
    old = _answered().where(_answered_before(age))
    return old.correlate_except(batch).exists()


def not_delivered_before(age: timedelta) -> sa.Select[tuple[Any]]:
    """Select the transactions with a delivery for which that is not so.

    The outer join is made once for all of them. With `delivered_before`, PostgreSQL
    would look for each transaction in every batch without rows.
    """
    answered = and_(_is_answered(delivery), _answered_before(age))
    joined = delivery.outerjoin(batch, answered)
    return select(delivery.c.xid).select_from(joined).where(batch.c.number.is_(None))


def delivered_at() -> ColumnElement[datetime | None]:
    """When the last answer to the batch of a delivered transaction was noted."""
    found = _answered().with_only_columns(batch.c.answered_at)
    return found.correlate_except(batch).scalar_subquery()


def _answered(of: sa.FromClause = delivery) -> sa.Select[tuple[int]]:
    """The batch of a delivery, if it was answered up to there."""
    return select(batch.c.number).where(_is_answered(of))


def _is_answered(of: sa.FromClause) -> ColumnElement[bool]:
    """The condition that joins a delivery with its batch, if it was answered."""
    its = batch.c
    return and_(
        its.destination == of.c.destination,
        its.number == of.c.batch,
        its.answered >= of.c.order_no,
    )


def _answered_before(age: timedelta) -> ColumnElement[bool]:
    # The same for all statements of a purge: what one keeps, the next may remove.
    return batch.c.answered_at < func.now() - cast(age, sa.Interval)
