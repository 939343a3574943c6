"""Sending the queued changes of some snapshots to another destination.

Transactions that the new destination has, or gets from the old one, count as delivered;
all others go to it, in their order. The queues stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, and_, func, literal, select, update
from sqlalchemy.dialects.postgresql import insert

from deferred.batches.batch import note_all_answered
from deferred.batches.cut import deliveries
from deferred.batches.ledger import original
from deferred.batches.marker import Marker
from deferred.batches.window import by_transaction
from deferred.catalog import (
    deferred_transaction,
    delivery,
    delivery_row,
    destination,
    route,
    schedule,
)
from deferred.catalog import queue as queue_catalog
from deferred.errors import BothDestinations, CallsQueued
from deferred.parked import withdrawn
from deferred.queues import define, queue, queue_function
from deferred.queues.delivery_rows import write_rows
from deferred.queues.queue import (
    Queue,
    call_numbers,
    list_queues,
    undelivered_procedures,
)
from groups.queued import transactions
from groups.table_queue import note_forgotten
from sites.sessions.identity import Identity
from sites.transfer import transport
from sites.words import counted, does

#: The batch number of transactions that reached a destination by another way; it is
#: below the numbers of its own batches.
BY_ANOTHER_WAY = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirected:
    """The counts of queued transactions after a redirect."""

    #: how many will be pushed to the new destination
    transactions: int
    #: how many are there already, or on their way
    settled: int


def refuse_procedures(connection: Connection, name: str) -> None:
    """Make sure that no procedure call waits for a destination.

    Raises:
        CallsQueued: some do, and they were made for that database.
    """
    waiting = undelivered_procedures(connection, name)
    if waiting:
        raise CallsQueued(
            f"{waiting} procedure calls are queued for {name}.",
            destination=name,
            calls=waiting,
        )


def refuse_shared(connection: Connection, queues: Sequence[Queue], to: str) -> None:
    """Make sure that no table's changes would come to a master in two halves.

    A master takes a transaction's changes of a table once. If one half comes from here,
    and another master, which has those of another snapshot of the table or both, sends
    its own on, it would leave one out. Halves that no master has yet go together if
    both snapshots have the new one.

    Raises:
        BothDestinations: there are such transactions.
    """
    mine = {one.id for one in queues}
    others = [one for one in list_queues(connection) if one.id not in mine]
    pairs = [(one, o) for one in queues for o in others if one.target == o.target]
    for one, other in pairs:
        half, rest = one.sql().c.xid, other.sql().c.xid
        shared = [half.in_(select(rest))]
        if other.destination == to:
            sent = select(delivery.c.xid).where(
                delivery.c.destination == one.destination, delivery.c.batch.is_not(None)
            )
            shared.append(half.in_(sent))
        number = connection.scalar(select(func.count(half.distinct())).where(*shared))
        if number:
            raise BothDestinations(
                f"{counted(number, 'transaction')} changed {one.target} through "
                f"{one.snapshot} and {other.snapshot}, and {to} may get their halves "
                "by two ways.",
                destination=to,
                transactions=number,
            )


def answered_by(name: str, at: Marker) -> ColumnElement[bool]:
    """Whether a destination has answered a transaction, by its marker."""
    there = delivery.alias("answered")
    return sa.exists().where(
        there.c.destination == name,
        there.c.xid == deferred_transaction.c.xid,
        sa.tuple_(there.c.batch, there.c.order_no)
        <= sa.tuple_(literal(at.batch_no), literal(at.order_no)),
    )


def known_there(
    connection: Connection,
    there: Connection,
    taken: sa.Select[Any],
    queues: Sequence[Queue],
) -> ColumnElement[bool]:
    """Whether a destination remembers all of a transaction's calls.

    Creates a temporary table in this transaction.

    Parameters:
        taken: a query for the destination: `duplicate_watch.taken`.
    """
    known = transport.copied(
        there,
        taken,
        connection,
        "snaptide_taken",
        transaction=sa.BigInteger,
        made_at=sa.DateTime(timezone=True),
        target=sa.Text,
    )
    made = deferred_transaction.c

    def of(*targets: str) -> ColumnElement[bool]:
        one = known.alias()
        return sa.exists().where(
            one.c.transaction == original(made.xid),
            one.c.made_at == made.start_time,
            one.c.target.in_(targets),
        )

    left = (
        and_(
            sa.exists().where(one.sql().c.xid == made.xid),
            sa.not_(of("", str(one.target))),
        )
        for one in queues
    )
    return sa.not_(sa.or_(*left))


def redirect(
    connection: Connection,
    queues: Sequence[Queue],
    to: Identity,
    at: Marker,
    settled: ColumnElement[bool],
) -> Redirected:
    """Send queues of one destination to another one.

    Call it in a REPEATABLE READ transaction after `lock_writers`, as the only pusher of
    both. Writes routes, deliveries, batches, destinations, schedules, queues, extra
    keys, triggers, and what the error queue has noted of withdrawn transactions.

    Parameters:
        at: the marker at the new destination.
        settled: the condition that a transaction is there, or on its way there.

    Raises:
        BothDestinations: a transaction has gone to the new one for other snapshots,
            or has come there by another way while they wait.
    """
    before = queues[0].destination
    write_rows(connection, to.name)
    _refuse_split(connection, queues, to.name, at, settled)
    _undo_windows(connection, queues, to.name)
    count = _settle(connection, queues, to.name, settled)
    left = _left(connection, queues, to.name, settled)
    numbers = [one.id for one in queues]
    withdrawn.send_to(connection, queues, to.name)
    connection.execute(
        update(route).where(route.c.queue_id.in_(numbers)).values(destination=to.name)
    )
    connection.execute(
        update(queue_catalog)
        .where(queue_catalog.c.id.in_(numbers))
        .values(covered_batch=0, covered_order=0)
    )
    for one in queues:
        _forget_places(connection, one)
    _know(connection, to, at)
    _schedule(connection, before, to.name)
    forget_destination(connection, before)
    for one in queues:
        capture = define.capture_of(connection, one)
        queue_function.replace(connection, capture)
    define.show_calls(connection)
    return Redirected(transactions=left, settled=count)


def _refuse_split(
    connection: Connection,
    queues: Sequence[Queue],
    to: str,
    at: Marker,
    settled: ColumnElement[bool],
) -> None:
    """Make sure that settled transactions have no other calls for the new destination.

    A transaction is delivered as a whole, so the push would send all of it again, or
    leave out the rest.
    """
    made = deferred_transaction.c
    rest = sa.union_all(*call_numbers(connection, to)).subquery()
    in_batch = sa.exists().where(
        delivery.c.destination == to,
        delivery.c.xid == made.xid,
        delivery.c.batch.is_not(None),
    )
    split = connection.scalar(
        select(func.count())
        .select_from(deferred_transaction)
        .where(
            made.xid.in_(transactions(queues)),
            settled,
            sa.or_(made.xid.in_(select(rest.c.xid)), in_batch),
            sa.not_(answered_by(to, at)),
        )
    )
    if split:
        raise BothDestinations(
            f"{counted(split, 'transaction', 'have')} reached {to}, and "
            f"{does(split, 'are')} still queued for it "
            f"because of other snapshots: push to {to} first.",
            destination=to,
            transactions=split,
        )


def _undo_windows(connection: Connection, queues: Sequence[Queue], to: str) -> None:
    """Remove transactions in no batch from the window, to count their calls again."""
    connection.execute(
        sa.delete(delivery_row).where(
            delivery_row.c.destination == to,
            delivery_row.c.batch.is_(None),
            delivery_row.c.xid.in_(transactions(queues)),
        )
    )


def _settle(
    connection: Connection,
    queues: Sequence[Queue],
    to: str,
    settled: ColumnElement[bool],
) -> int:
    tables = [one.sql() for one in queues]
    counted = by_transaction([select(t.c.xid, t.c.call_no) for t in tables])
    made = deferred_transaction.c
    rows = (
        select(
            literal(to),
            made.xid,
            func.greatest(made.order_no, counted.c.last, type_=sa.BigInteger),
            counted.c.calls,
            literal(BY_ANOTHER_WAY, sa.BigInteger),
        )
        .join(counted, counted.c.xid == made.xid)
        .where(settled)
    )
    columns = ["destination", "xid", "order_no", "calls", "batch"]
    new = insert(delivery_row).from_select(columns, rows).on_conflict_do_nothing()
    connection.execute(new)
    return connection.scalar(select(func.count()).select_from(rows.subquery())) or 0


def _left(
    connection: Connection,
    queues: Sequence[Queue],
    to: str,
    settled: ColumnElement[bool],
) -> int:
    """How many transactions will be pushed to the new destination."""
    made = deferred_transaction.c
    there = and_(delivery.c.destination == to, delivery.c.xid == made.xid)
    left = and_(made.xid.in_(transactions(queues)), sa.not_(settled))
    tangled = connection.scalar(
        select(func.count())
        .select_from(deferred_transaction.join(delivery, there))
        .where(left, delivery.c.batch.is_not(None))
    )
    if tangled:
        raise BothDestinations(
            f"{counted(tangled, 'transaction', 'have')} been sent "
            f"to {to} for other snapshots.",
            destination=to,
            transactions=tangled,
        )
    return connection.scalar(select(func.count()).where(left)) or 0


def _forget_places(connection: Connection, one: Queue) -> None:
    """Clear the former destination's batches and transactions from extra keys."""
    extra = one.extra
    assert extra is not None
    connection.execute(
        update(extra).values(batch_no=None, order_no=None, master_xid=None)
    )


def _know(connection: Connection, to: Identity, at: Marker) -> None:
    """Go on after the new destination's marker, with one window over all calls."""
    known = select(destination.c.name).where(destination.c.name == to.name)
    if connection.scalar(known) is None:
        define.know_destinations(connection, to.name)
        connection.execute(
            update(destination)
            .where(destination.c.name == to.name)
            .values(
                incarnation=to.incarnation,
                batch_no=at.batch_no,
                batch_id=at.batch_id,
                batch_end=at.order_no,
            )
        )
    note_all_answered(connection, to.name, BY_ANOTHER_WAY)
    connection.execute(deliveries(connection, to.name))
    connection.execute(
        update(destination)
        .where(destination.c.name == to.name)
        .values(window_end=func.pg_current_snapshot())
    )


def _schedule(connection: Connection, before: str, to: str) -> None:
    """Give the new destination the push schedule of the former one."""
    of = schedule.c
    same = select(literal("push"), literal(to), of.interval, of.options, of.disabled)
    connection.execute(
        insert(schedule)
        .from_select(
            ["kind", "subject", "interval", "options", "disabled"],
            same.where(of.kind == "push", of.subject == before),
        )
        .on_conflict_do_nothing()
    )


def forget_destination(connection: Connection, name: str) -> None:
    """Delete a destination, with its schedule, if no queue goes to it any more."""
    note_forgotten(connection, {name})
    if connection.scalar(select(queue.goes_to(literal(name)))):
        return
    mine = and_(schedule.c.kind == "push", schedule.c.subject == name)
    connection.execute(sa.delete(schedule).where(mine))
    rows = delivery_row.c.destination == name
    connection.execute(sa.delete(delivery_row).where(rows))
    connection.execute(sa.delete(destination).where(destination.c.name == name))
