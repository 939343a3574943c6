"""Changes of a site that are taken out of its queue before any destination has them.

A withdrawn transaction stands in the error queue of its own site, with all calls that
it made for one destination, until someone puts it back into the queue or deletes it.
Transactions that need what it did are withdrawn with it (`deferred.parked.dependants`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row, Text, and_, cast, func, literal, select
from sqlalchemy.dialects.postgresql import array

from deferred.batches import pusher, same_destination
from deferred.catalog import deferred_transaction, delivery, delivery_row
from deferred.error_catalog import WITHDRAWN, error_call, error_transaction
from deferred.errors import RetryFailed
from deferred.parked import dependants, image, made_for, restage_parked
from deferred.queues import on_behalf, refresh_coverage
from deferred.queues.queue import (
    Queue,
    changes_key,
    delivery_of,
    find_queue,
    list_queues,
)
from deferred.queues.target_columns import captured_columns
from masters.errors import UnknownColumn
from sites import QualifiedName, names
from sites.errors import UnknownTable
from sites.sessions.identity import Identity
from sites.transfer.types import NativeType
from sites.transfer.values import from_text
from sites.writing.staged import MOVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawal:
    """What is to be taken out of the queue to one destination, and why."""

    site: Identity
    destination: str
    #: the marker of this site there: calls up to this place are answered
    batch_no: int
    order_no: int
    #: by snapshot, the rows (k1, k2, ...) whose waiting changes are not wanted
    rows: Mapping[str, sa.Select[Any]]
    error_code: str
    error_message: str


def withdraw(connection: Connection, wanted: Withdrawal) -> dict[str, int]:
    """Move transactions that wait for a destination to this site's error queue.

    Left alone are changes of rows that have a change in a batch, which the destination
    may have applied already; transactions that call procedures or change tables of a
    replication group, which no refresh takes back; and all if a push is running.

    Writes the queues, their catalog, the error queue, and extra keys for the rows, so
    that refreshes show the master's again. Commits nothing.

    Returns:
        By snapshot, how many transactions with changes of it were withdrawn.
    """
    queues = list_queues(connection, wanted.destination)
    chosen = [one for one in queues if one.snapshot in wanted.rows]
    if not any(_waiting(connection, one, wanted) for one in chosen):
        return {}
    if not pusher.keep_out(connection, wanted.destination):
        return {}
    # Only now can no push cut a batch meanwhile.
    start = {xid for one in chosen for xid in _waiting(connection, one, wanted)}
    xids = dependants.together(connection, queues, start)
    counts = {}
    if xids:
        _park(connection, queues, wanted, xids)
        counts = {one.snapshot: _take(connection, one, xids) for one in queues}
        _forget(connection, wanted.destination, xids)
    return {name: count for name, count in counts.items() if count}


def put_back(connection: Connection, row: Row[Any]) -> None:
    """Queue a withdrawn transaction again, as if it were made now; remove it here.

    Its old values are those that the user saw, so a conflict is found as ever.

    Raises:
        RetryFailed: a snapshot that it changed is gone, has another table or master, or
            other columns by now.
        sqlalchemy.exc.DBAPIError: a column's type can no longer read a value.
    """
    mine = error_call.c.error_id == row.id
    for made in restage_parked.tables(connection, row.id):
        queue, types = _still_there(connection, made, row.id)
        calls = _as_calls(queue, types).where(
            mine,
            error_call.c.target_schema == made.target_schema,
            error_call.c.target_table == made.target_table,
        )
        on_behalf.queue_calls(connection, queue, row.origin_user, calls)
    connection.execute(sa.delete(error_call).where(mine))
    gone_now = error_transaction.c.id == row.id
    connection.execute(sa.delete(error_transaction).where(gone_now))


def send_to(connection: Connection, queues: Iterable[Queue], name: str) -> None:
    """Have what was withdrawn from queues go to another destination when put back.

    Parameters:
        queues: as they were, to their former destination.
        name: the new one, which their snapshots get from now on.
    """
    known = error_transaction.c.target_columns
    for queue in queues:
        place = array([queue.snapshot, "destination"], type_=Text)
        its = known[queue.snapshot]["destination"].astext
        connection.execute(
            sa.update(error_transaction)
            .where(error_transaction.c.reason == WITHDRAWN, its == queue.destination)
            .values(
                target_columns=func.jsonb_set(
                    known.op("#-")(array([queue.snapshot, "site_id"], type_=Text)),
                    place,
                    func.to_jsonb(cast(name, Text)),
                )
            )
        )


def has_calls_of(connection: Connection, snapshot: QualifiedName) -> bool:
    """Whether a withdrawn transaction of this site changed rows of a snapshot.

    It names the columns that the snapshot had, and is put back by their names.
    """
    its = error_call.join(
        error_transaction, error_call.c.error_id == error_transaction.c.id
    )
    found = (
        select(error_call.c.error_id)
        .select_from(its)
        .where(
            error_transaction.c.reason == WITHDRAWN,
            error_call.c.target_schema == snapshot.schema,
            error_call.c.target_table == snapshot.name,
        )
    )
    return bool(connection.scalar(select(found.exists())))


def _still_there(
    connection: Connection, made: Row[Any], error_id: int
) -> tuple[Queue, list[str]]:
    """The queue of a snapshot that calls were made for, and the types of its columns.

    Parameters:
        made: as of `restage_parked.tables`.
    """
    snapshot = QualifiedName(made.target_schema, made.target_table)
    try:
        queue = find_queue(connection, str(snapshot))
        if queue is None:
            raise UnknownTable(
                f"Snapshot {snapshot} is gone, read-only, or not loaded yet."
            )
        known = (made.target_columns or {}).get(queue.snapshot) or {}
        for why in made_for.differences(connection, queue, made, known):
            raise UnknownColumn(f"Snapshot {snapshot} {why}.")
        table, called = captured_columns(connection, queue)
    except (UnknownTable, UnknownColumn) as gone:
        raise RetryFailed(
            f"Error transaction {error_id}: {gone.message}", error_id=error_id
        ) from gone
    return queue, [table.column(called[name]).recorded for name in queue.columns]


def _waiting(connection: Connection, queue: Queue, wanted: Withdrawal) -> set[str]:
    """Transactions that changed the rows and are in no batch, nor is any of the row."""
    calls = queue.sql()
    rows = wanted.rows[queue.snapshot].subquery("wanted")
    keys = queue.keys(calls)
    pending = (
        select(*keys, calls.c.xid, delivery.c.batch)
        .select_from(calls.outerjoin(delivery, delivery_of(queue, calls)))
        .where(refresh_coverage.beyond(wanted.batch_no, wanted.order_no))
        .subquery("pending")
    )
    same = [pending.c[key.name] == rows.c[key.name] for key in keys]
    other = pending.alias("other")
    sent = sa.exists().where(
        other.c.batch.is_not(None),
        *(other.c[key.name] == rows.c[key.name] for key in keys),
    )
    found = select(cast(pending.c.xid, Text)).join(rows, and_(*same)).where(~sent)
    return set(connection.scalars(found.distinct()))


def _park(
    connection: Connection,
    queues: Sequence[Queue],
    wanted: Withdrawal,
    xids: set[str],
) -> None:
    """Copy transactions with their calls to the error queue."""
    numbers = [
        select(calls.c.xid, calls.c.call_no).where(dependants.among(calls.c.xid, xids))
        for calls in (one.sql() for one in queues)
    ]
    every = sa.union_all(*numbers).subquery("every")
    last = func.max(every.c.call_no)
    made = deferred_transaction.c
    values: dict[str, sa.ColumnElement[Any]] = {
        "origin_id": literal(wanted.site.site_id),
        "origin": literal(wanted.site.name),
        "origin_transaction": cast(made.xid, Text),
        "origin_user": made.origin_user,
        "batch_no": literal(0, sa.BigInteger),
        "order_no": func.greatest(made.order_no, last),
        "start_time": made.start_time,
        "reason": literal(WITHDRAWN),
        "error_code": literal(wanted.error_code),
        "error_message": literal(wanted.error_message),
    }
    found: sa.Select[Any] = (
        select(*values.values())
        .join_from(deferred_transaction, every, every.c.xid == made.xid)
        .group_by(made.xid)
        .order_by(func.greatest(made.order_no, last))
    )
    parked = sa.insert(error_transaction).from_select([*values], found)
    master = same_destination.agreed_with(connection, wanted.destination)
    ids = connection.execute(
        parked.returning(error_transaction.c.id, error_transaction.c.origin_transaction)
    ).all()
    for number, xid in ids:
        changed = [one for one in queues if _copy(connection, one, number, xid)]
        connection.execute(
            sa.update(error_transaction)
            .where(error_transaction.c.id == number)
            .values(
                target_columns={
                    one.snapshot: made_for.noted(one, master) for one in changed
                }
            )
        )


def _copy(connection: Connection, queue: Queue, number: int, xid: str) -> int:
    """Copy the calls of a transaction; returns how many there are."""
    calls, snapshot = queue.sql(), names.parse(queue.snapshot)
    kind = func.upper(cast(calls.c.kind, Text))
    places = range(1, len(queue.columns) + 1)
    old, new = (
        image.as_json(queue.columns, [calls.c[f"{side}{n}"] for n in places])
        for side in "on"
    )
    copies = select(
        literal(number),
        calls.c.call_no,
        literal(snapshot.schema),
        literal(snapshot.name),
        sa.case((changes_key(calls), MOVE), else_=kind),
        literal(list(queue.identity_columns), sa.ARRAY(Text)),
        sa.case((kind != "I", old)),
        sa.case((kind != "D", new)),
    ).where(dependants.among(calls.c.xid, {xid}))
    columns = [column.name for column in error_call.columns][:8]
    return connection.execute(
        sa.insert(error_call).from_select(columns, copies)
    ).rowcount


def _take(connection: Connection, queue: Queue, xids: set[str]) -> int:
    """Take calls out of a queue, and have refreshes look at their rows."""
    calls = queue.sql()
    theirs = dependants.among(calls.c.xid, xids)
    count = connection.scalar(select(func.count(calls.c.xid.distinct())).where(theirs))
    if queue.extra is not None and count:
        for keys in queue.every_key(calls):
            columns = [*keys.selected_columns.keys(), "reason"]
            rows = keys.add_columns(literal(WITHDRAWN)).where(theirs)
            connection.execute(sa.insert(queue.extra).from_select(columns, rows))
    connection.execute(sa.delete(calls).where(theirs))
    return count or 0


def _forget(connection: Connection, name: str, xids: set[str]) -> None:
    """Remove the deliveries of transactions, and those that have no calls left."""
    # They are in no batch, so all that a window holds have rows.
    row = delivery_row.c
    to = and_(row.destination == name, dependants.among(row.xid, xids))
    connection.execute(sa.delete(delivery_row).where(to))
    left = [
        select(calls.c.xid).where(dependants.among(calls.c.xid, xids))
        for calls in (one.sql() for one in list_queues(connection))
    ]
    gone = deferred_transaction.c.xid.not_in(sa.union_all(*left))
    connection.execute(
        sa.delete(deferred_transaction).where(
            dependants.among(deferred_transaction.c.xid, xids), gone
        )
    )


def _as_calls(queue: Queue, types: Sequence[str]) -> sa.Select[Any]:
    """Calls of the error queue, as `on_behalf.queue_calls` takes them."""
    records = [
        func.json_to_record(value)
        .table_valued(*(sa.column(c, Text) for c in queue.columns), name=name)
        .render_derived(with_types=True)
        .lateral()
        for name, value in (
            ("old", error_call.c.old_values),
            ("new", error_call.c.new_values),
        )
    ]
    values = [
        from_text(record.c[name], type_)
        for record in records
        for name, type_ in zip(queue.columns, types, strict=True)
    ]
    moved = error_call.c.kind == MOVE
    return select(
        cast(sa.case((moved, "U"), else_=error_call.c.kind), NativeType('"char"')),
        moved,
        *values,
    ).select_from(
        error_call.outerjoin(records[0], sa.true()).outerjoin(records[1], sa.true())
    )
