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
from deferred.batches import arrivals, footprint, marker, work
from deferred.batches import batch as batches
from deferred.batches.groups import Group
from deferred.batches.marker import Marker
from deferred.batches.shipping import Line, ship
from deferred.parked import error_queue, quiet
from deferred.procedures.steps import Steps
from deferred.pushing.delivery import Delivered, made_by, passed
from deferred.pushing.origin import Origin
from masters.apply import Made, Unit, apply
from sites import faults
from sites.errors import NoFreeValue, RowCountMismatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A group that was not applied."""

    #: order numbers of the transactions that made it fail, as far as known
    transactions: Collection[int] = ()


def deliver_together(
    line: Line, origin: Origin, group: Group, bulk: int, *, patient: bool
) -> Delivered | Refused:
    """Apply a group at the destination, and move the marker to the group's end.

    Owns the destination's transaction: one commit, or nothing.

    Parameters:
        bulk: a table's changes go by COPY if they are at least this many rows.
        patient: raise if a user holds a row; else refuse the group.

    Raises:
        sqlalchemy.exc.DBAPIError: the data is not the reason.
    """
    target = line.target
    try:
        ship(
            line,
            group.after,
            group.end,
            together=True,
            bulk=bulk,
            calls=group.calls,
            transactions=len(group),
        )
    except DBAPIError as error:
        if not sqlstate.caused_by_data(error):
            raise
        target.rollback()
        line.origin.rollback()
        return Refused()
    faults.point("push.after_group_ship")
    at = marker.lock(target, origin.id, origin.name)
    to = Marker(batch_no=line.batch.number, batch_id=line.batch.id, order_no=group.end)
    if passed(at, to) or _within(at, to, group.after):
        target.rollback()
        return Delivered(fresh=False)
    if at.watched != line.watched_for:
        target.rollback()
        return Refused()
    faults.point("push.before_apply")
    answer = attempt(line, origin, unit_of(line, origin, group), patient=patient)
    if isinstance(answer, Refused):
        target.rollback()
        faults.point("push.after_refusal")
        return answer
    faults.point("push.after_apply")
    arrived = arrivals.of_part(line, origin.name, group.after, group.end)
    arrivals.count(target, origin.name, arrived)
    marker.move(target, origin.id, to)
    faults.point("push.before_commit")
    target.commit()
    faults.point("push.after_commit")
    return answer


def _within(at: Marker, to: Marker, after: int) -> bool:
    """Whether another pusher has answered some of the group."""
    return at.batch_id == to.batch_id and at.order_no > after


def unit_of(line: Line, origin: Origin, group: Group) -> Unit:
    """A group as it lies in the work tables, under its last order number."""
    # The destination sends none of these on, wherever they began: transactions that go
    # on are applied one by one. Changes of the sender's own that come another way may
    # still go on.
    began = {group: source or origin.name for group, source in line.sources.items()}
    return Unit(
        number=group.end,
        staged=line.staged,
        counts=work.counts(line.target, line.staged, group.end),
        origin=origin.name,
        master=origin.master,
        made=_made(line, group),
        several=True,
        facts={"sources": began},
    )


def attempt(
    line: Line, origin: Origin, unit: Unit, *, patient: bool
) -> Delivered | Refused:
    """Apply a unit; if it is refused, the caller rolls back.

    Raises:
        sqlalchemy.exc.DBAPIError: as `deliver_together` does.
    """
    if any(count.get("X") for count in unit.counts):
        return Refused(transactions=work.invalid(line.target, line.staged, unit.number))
    alone = Steps(units=[unit])
    touched = [staged.table.qualified for staged in alone.changed]
    there = quiet.in_the_way(line.target, origin.id)
    if there.quiet and quiet.of_tables(line.target, touched):
        return Refused()
    if there.parked and (related := _related(line, origin, alone)):
        return Refused(transactions=related)
    # `apply` compares every change with the master's row before it writes any.
    if twice := work.of_two_tables(line.target, alone.changed, unit.number):
        return Refused(transactions=twice)
    try:
        sure = not there.parked or _may_resolve(line, origin)
        outcome = apply(line.target, unit, resolving=sure)
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


def _related(line: Line, origin: Origin, alone: Steps) -> set[int]:
    """Transactions that share a row, key or parent with a parked one."""
    return set(footprint.relations(line.target, origin.id, alone.changed, alone.rows))


def _may_resolve(line: Line, origin: Origin) -> bool:
    """Whether rules may settle conflicts: not if parked procedures may cause them."""
    return not error_queue.with_procedures(line.target, origin.id)


def _made(line: Line, group: Group) -> Callable[[int], Made]:
    """A function that gives a transaction's source, read only if rows conflict."""
    known: dict[int, Made] = {}

    def made(order_no: int) -> Made:
        if not known:
            for one in batches.waiting(line.origin, line.batch, group.after, group.end):
                known[one.order_no] = made_by(one)
            line.origin.commit()  # nothing was written there
        return known[order_no]

    return made
