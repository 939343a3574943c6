"""Applying a group of transactions as one change, or refusing it (HVAR).

A group leaves the same rows at the destination, in the error queue and in the record
of resolutions as its transactions would one after the other. If that is not certain,
the group is refused and rolled back, and the push tries smaller pieces of it
(docs/explanation/compiled-push.md).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from sqlalchemy.exc import DBAPIError

from deferred import sqlstate
from deferred.batches import batch as batches
from deferred.batches import footprint, lost_rows, marker, work
from deferred.batches.groups import ApplyGroup
from deferred.batches.marker import Marker
from deferred.batches.provenance import Sender
from deferred.batches.shipment import Shipment
from deferred.batches.shipping import Part, ship
from deferred.parked import error_queue
from deferred.parked.decided_alone import DecidedAlone
from deferred.procedures.steps import Steps
from deferred.pushing.delivery import Delivered, already_answered, made_by
from masters.apply import ApplyUnit, SourceTransaction, apply
from sites import faults
from sites.errors import NoFreeValue, RowCountMismatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A group that was not applied."""

    #: order numbers of the transactions that made it fail, as far as known
    transactions: Collection[int] = ()


def deliver_together(
    shipment: Shipment, sender: Sender, group: ApplyGroup, bulk: int, *, patient: bool
) -> Delivered | Refused:
    """Apply a group at the destination, and move the marker to the group's end.

    Owns the destination's transaction: one commit, or nothing.

    Parameters:
        bulk: a table's changes go by COPY if they are at least this many rows.
        patient: raise if a user holds a row; else refuse the group.

    Raises:
        sqlalchemy.exc.DBAPIError: the data is not the reason.
    """
    target = shipment.target
    try:
        part = Part(
            after=group.after,
            end=group.end,
            transactions=len(group),
            calls=group.calls,
            together=True,
        )
        ship(shipment, part, bulk)
        faults.point("push.after_group_ship")
        at = marker.lock(target, sender.id, sender.name)()
    except DBAPIError as error:
        if not shipment.is_refused(error):
            raise
        target.rollback()
        shipment.origin.rollback()
        return Refused()
    to = Marker(
        batch_no=shipment.batch.number, batch_id=shipment.batch.id, order_no=group.end
    )
    if already_answered(shipment, at, to) or _within(at, to, group.after):
        target.rollback()
        return Delivered(fresh=False)
    if at.watch_version != shipment.began_at.watch_version:
        target.rollback()
        return Refused()
    shipment.enter(at)
    faults.point("push.before_apply")
    answer = try_apply_group(
        shipment, sender, unit_of(shipment, sender, group), patient=patient
    )
    if isinstance(answer, Refused):
        target.rollback()
        faults.point("push.after_refusal")
        return answer
    faults.point("push.after_apply")
    note_applied(shipment, sender, group)
    marker.move(target, sender.id, to)
    faults.point("push.before_commit")
    target.commit()
    faults.point("push.after_commit")
    return answer


def note_applied(shipment: Shipment, sender: Sender, group: ApplyGroup) -> None:
    """Let replication groups note that a group of transactions was applied."""
    shipment.relay.applied_together(
        shipment.origin,
        shipment.target,
        shipment.batch,
        shipment.queues,
        sender,
        (group.after, group.end),
    )


def _within(at: Marker, to: Marker, after: int) -> bool:
    """Whether another pusher has answered some of the group."""
    return at.batch_id == to.batch_id and at.order_no > after


def unit_of(shipment: Shipment, sender: Sender, group: ApplyGroup) -> ApplyUnit:
    """A group as it lies in the work tables, under its last order number."""
    # The destination sends none of these on, wherever they began: transactions that go
    # on are applied one by one. Changes of the sender's own that come another way may
    # still go on.
    began = {group: source or sender.name for group, source in shipment.sources.items()}
    return ApplyUnit(
        number=group.end,
        staged=shipment.staged,
        counts=work.counts(shipment.target, shipment.staged, group.end),
        origin=sender.name,
        master=sender.master,
        transaction_of=_made(shipment, group),
        several=True,
        on_alone=DecidedAlone(connection=shipment.target, sources=began)
        if began
        else None,
        facts={"sources": began},
    )


def try_apply_group(
    shipment: Shipment, sender: Sender, unit: ApplyUnit, *, patient: bool
) -> Delivered | Refused:
    """Apply a unit; if it is refused, the caller rolls back.

    Raises:
        sqlalchemy.exc.DBAPIError: as `deliver_together` does.
    """
    if any(count.get("X") for count in unit.counts):
        if shipment.lifts:
            # A lens may refuse a row again for each of its transactions. The group is
            # divided into halves then: that makes far fewer pieces to try.
            return Refused()
        return Refused(
            transactions=work.invalid(shipment.target, shipment.staged, unit.number)
        )
    alone = Steps(units=[unit])
    touched = [staged.table.qualified for staged in alone.changed]
    if shipment.relay.hold(shipment.target, touched):
        return Refused()
    parked = lost_rows.any_parked(shipment.target, sender.id)
    if parked and (related := _related(shipment, sender, alone)):
        return Refused(transactions=related)
    # `apply` compares every change with the master's row before it writes any.
    if twice := work.of_two_tables(shipment.target, alone.changed, unit.number):
        return Refused(transactions=twice)
    try:
        sure = not parked or _may_resolve(shipment, sender)
        outcome = apply(shipment.target, unit, resolving=sure)
    except DBAPIError as error:
        held = sqlstate.gave_way(error) and not patient
        if not (held or sqlstate.caused_by_transaction(error)):
            raise
        return Refused()
    except (RowCountMismatch, NoFreeValue):
        return Refused()
    if outcome.unresolved:
        return Refused(transactions=outcome.refused)
    return Delivered(resolved=outcome.resolved)


def _related(shipment: Shipment, sender: Sender, alone: Steps) -> set[int]:
    """Transactions that share a row, key or parent with a parked one."""
    return set(
        footprint.relations(shipment.target, sender.id, alone.changed, alone.rows)
    )


def _may_resolve(shipment: Shipment, sender: Sender) -> bool:
    """Whether rules may settle conflicts: not if parked procedures may cause them."""
    return not error_queue.with_procedures(shipment.target, sender.id)


def _made(shipment: Shipment, group: ApplyGroup) -> Callable[[int], SourceTransaction]:
    """A function that gives a transaction's source, read only if rows conflict."""
    known: dict[int, SourceTransaction] = {}

    def made(order_no: int) -> SourceTransaction:
        if not known:
            queued = batches.queued_transactions(
                shipment.origin, shipment.batch, group.after, group.end
            )
            for one in queued():
                known[one.order_no] = made_by(one)
            shipment.origin.commit()  # nothing was written there
        return known[order_no]

    return made
