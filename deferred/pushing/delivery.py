"""Delivering transactions: apply or park each, and move the marker with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TypeAlias

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from deferred.batches import footprint, lost_rows, marker, provenance, work
from deferred.batches.batch import QueuedTransaction
from deferred.batches.footprint import Relation
from deferred.batches.marker import Marker
from deferred.batches.provenance import Sender
from deferred.batches.relay import of_groups
from deferred.batches.shipment import Shipment
from deferred.batches.unfit import complete
from deferred.errors import (
    DestinationQuiet,
    GivesGoneColumn,
    PositionMismatch,
    TransactionRefused,
)
from deferred.options import QUIET, ErrorAction
from deferred.parked import error_queue, park_reason, skipped
from deferred.parked.arrived import Arrived
from deferred.parked.error_dependencies import DEPENDANT, HELD
from deferred.parked.park_reason import ParkReason
from deferred.parked.parking import Parked, park
from deferred.procedures.steps import FAILURES, Steps, apply
from masters.apply import Outcome, SourceTransaction
from masters.rules import table_rules
from sites import QualifiedName, faults
from sites.errors import ValueDoesNotFit
from sites.progress import RowsDone
from sites.transfer import encodings
from sites.writing.staged import Staged


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The outcome of one transaction, or of a group."""

    #: False if the marker had moved past it: another push delivered it
    fresh: bool = True
    resolved: int = 0
    #: number in the error queue, if it was parked
    error_id: int | None = None
    #: it was parked only because its group is quiet
    held: bool = False


@dataclass(frozen=True, slots=True)
class Begun:
    """A delivery that has locked the marker, and counted its changes."""

    at: Marker
    counted: Callable[[], _Counts]


def begin(shipment: Shipment, sender: Sender, transaction: QueuedTransaction) -> Begun:
    """Lock the marker and count the changes, which are perhaps written with that.

    Raises:
        sqlalchemy.exc.DBAPIError: also if changes do not fit into the work tables.
    """
    locked = marker.lock(shipment.target, sender.id, sender.name)
    counted = _ask_counts(shipment.target, sender, transaction, shipment.staged)
    return Begun(locked(), counted)


def deliver(
    shipment: Shipment,
    sender: Sender,
    transaction: QueuedTransaction,
    on_error: ErrorAction = ErrorAction.QUEUE,
    on_progress: RowsDone | None = None,
    unfit: ValueDoesNotFit | GivesGoneColumn | None = None,
    *,
    commits: bool = False,
    begun: Begun | None = None,
) -> Delivered:
    """Apply one transaction at the destination, or park it, exactly once.

    Runs in the destination's open transaction, which the caller commits as a whole.

    Parameters:
        shipment: its changes are in the work tables.
        on_progress: called from time to time with how many of its changes are written.
        unfit: why it cannot be applied, if it could not be shipped whole.
        commits: the caller commits after it in any case.
        begun: what `begin` has returned, if the caller has begun it.

    Raises:
        TransactionRefused: it would have to be parked, and the error action forbids it.
        sqlalchemy.exc.DBAPIError: the data is not the reason.
    """
    connection, staged, batch = shipment.target, shipment.staged, shipment.batch
    begun = begun or begin(shipment, sender, transaction)
    at, counted = begun.at, begun.counted
    to = Marker(batch_no=batch.number, batch_id=batch.id, order_no=transaction.order_no)
    if already_answered(shipment, at, to):
        return Delivered(fresh=False)
    shipment.enter(at)
    faults.point("push.before_apply")
    if not transaction.origin_user.isascii():
        transaction = _with_user_that_fits(connection, transaction)
    sources = sender.sources(transaction, sender.groups.values())
    # If the transaction is refused, the savepoint rolls back the note that it arrived.
    watched = shipment.watches(at)
    with connection.begin_nested() if watched else nullcontext():
        sure = not watched or of_groups().admit(connection, sender, transaction, staged)
        # What has arrived by another way is not in the work tables any more.
        if watched:
            counted = _ask_counts(connection, sender, transaction, staged)
        counts, parked = counted()
        steps = _arrived(sender, transaction, sources).steps(
            connection,
            staged,
            dict(zip(transaction.units, counts, strict=True)),
            parked=parked,
            on_progress=on_progress,
        )
        steps = replace(steps, unfit=unfit, commits=commits and not watched)
        answer = try_apply(shipment, sender, steps, sure=sure)
        if isinstance(answer, Outcome):
            delivered = Delivered(resolved=answer.resolved)
        else:
            to_park = _to_park(shipment, sender, transaction, answer, sources)
            delivered = _park_or_refuse(
                shipment, sender, steps, to_park, on_error, sure=sure
            )
    faults.point("push.after_apply")
    arrived = shipment.relay.applied(sender, transaction, tables_of(steps))
    marker.move(connection, sender.id, to, arrived)
    return delivered


def _with_user_that_fits(
    connection: Connection, transaction: QueuedTransaction
) -> QueuedTransaction:
    user = encodings.escaped(connection, transaction.origin_user)
    return replace(transaction, origin_user=user)


def _arrived(
    sender: Sender, transaction: QueuedTransaction, sources: Mapping[str, str]
) -> Arrived:
    return Arrived(
        transaction=transaction.xid,
        origin=transaction.origin or sender.name,
        user=transaction.origin_user,
        made_at=transaction.start_time,
        source=made_by(transaction),
        sender_id=sender.id,
        master=sender.master,
        sources=sources,
        calls=transaction.procedures,
    )


def _to_park(
    shipment: Shipment,
    sender: Sender,
    transaction: QueuedTransaction,
    why: ParkReason,
    sources: Mapping[str, str],
) -> Parked:
    return Parked(
        origin_id=sender.id,
        origin=transaction.origin or sender.name,
        sources=sources or None,
        origin_transaction=transaction.xid,
        origin_user=transaction.origin_user,
        batch_no=shipment.batch.number,
        order_no=transaction.order_no,
        start_time=transaction.start_time,
        why=why,
    )


#: How many changes of each kind each unit has in each work table, and whether anything
#: of the sender is parked; None if that was not asked.
_Counts: TypeAlias = tuple[list[list[Mapping[str, int]]], bool | None]


def _ask_counts(
    connection: Connection,
    sender: Sender,
    transaction: QueuedTransaction,
    staged: Sequence[Staged],
) -> Callable[[], _Counts]:
    """Ask for counts with what is asked next; returns what the caller calls then."""
    if not staged:
        return lambda: ([[] for _ in transaction.units], None)
    asked = [
        work.ask_counts(
            connection, staged, number, lost_rows.ANY_PARKED, its_id=sender.id
        )
        for number in transaction.units
    ]

    def counted() -> _Counts:
        found = [one() for one in asked]
        return [counts for counts, _ in found], found[0][1]

    return counted


def made_by(transaction: QueuedTransaction) -> SourceTransaction:
    """The source of a transaction, for rules and the record of resolutions."""
    return SourceTransaction(
        transaction=transaction.xid,
        changed_at=transaction.start_time,
        origin=transaction.origin,
    )


def already_answered(shipment: Shipment, at: Marker, to: Marker) -> bool:
    """Whether the destination has answered this transaction already.

    If the marker is in a later batch, another pusher has moved it there from our batch.
    Until it comes to that, it has to stand where that was cut. It does not if the site
    was repaired while a push was at work, which went on in batches of its own.

    Raises:
        PositionMismatch: the destination has other transactions than those before.
    """
    if at.batch_id == to.batch_id:
        return at.order_no >= to.order_no
    if at.batch_no > to.batch_no:
        noted = shipment.noted
        gone_on = noted is not None and not noted.is_there(shipment.target)
    else:
        gone_on = at != shipment.began_at
    if gone_on:
        raise PositionMismatch(
            f"Another push to {shipment.batch.destination} went on in batch "
            f"{at.batch_no}, up to place {at.order_no}.",
            destination=shipment.batch.destination,
            marker=at.batch_no,
            batch=to.batch_no,
        )
    return at.batch_no > to.batch_no


def try_apply(
    shipment: Shipment, sender: Sender, steps: Steps, *, sure: bool = True
) -> Outcome | ParkReason:
    """Apply a transaction whole, or write nothing and return why it failed.

    Parameters:
        sure: it has certainly not come before; else no rule may settle a conflict.
    """
    connection = shipment.target
    relation = footprint.NOTHING
    parked = steps.parked
    if parked is None:
        parked = lost_rows.any_parked(connection, sender.id)
    if parked:
        relation = _dependence(connection, sender, steps)
    waits_for = relation.error_ids
    if held := shipment.relay.hold(connection, tables_of(steps)):
        return park_reason.held(held, waits_for)
    if relation.lost:
        return park_reason.lost(waits_for)
    if relation.certain:
        return park_reason.waits(waits_for)
    try:
        outcome = apply(connection, steps, resolving=sure and not waits_for)
        if not outcome.unresolved:
            return outcome
        failed = park_reason.conflict(outcome)
    except (DBAPIError, GivesGoneColumn, *FAILURES) as error:
        failed = park_reason.failure(connection, steps, error)
    if waits_for and failed.may_follow:
        waits = park_reason.waits(waits_for, failed.message)
        return replace(waits, conflicts=failed.conflicts)
    return failed


def _dependence(connection: Connection, sender: Sender, steps: Steps) -> Relation:
    """Parked transactions that this one may depend on, and whether it surely does.

    Callers ask only if there are parked transactions.

    The dependence is certain if the transaction starts from a row that a parked call
    would have made, or deletes a row that a parked call refers to; otherwise the
    master's rows decide. Without old values, the row that it starts from is unknown,
    and any dependence counts as certain.

    The rows that a procedure reads and writes are not known at all. So a transaction
    that calls procedures waits for all parked ones; and a parked one that calls
    procedures may be the reason for any failure of a later one.
    """
    unknown = error_queue.with_procedures(connection, sender.id)
    if steps.calls:
        everything = error_queue.numbers(connection, sender.id)
        return Relation(error_ids=everything, certain=True)
    found = footprint.relations(connection, sender.id, steps.changed, steps.rows)
    relation = found.get(steps.number, footprint.NOTHING).besides(unknown)
    if relation.error_ids and not _all_sent(connection, steps):
        return replace(relation, certain=True)
    return relation


def _all_sent(connection: Connection, steps: Steps) -> bool:
    return all(
        table_rules.load(connection, table).comparison.all_sent
        for table in tables_of(steps)
    )


def tables_of(steps: Steps) -> list[QualifiedName]:
    return [staged.table.qualified for staged in steps.changed]


def _park_or_refuse(
    shipment: Shipment,
    sender: Sender,
    steps: Steps,
    parked: Parked,
    on_error: ErrorAction,
    *,
    sure: bool,
) -> Delivered:
    """Park a transaction that was not applied, whole or in part, or refuse it."""
    connection = shipment.target
    held = parked.why.reason == HELD
    action = ErrorAction.QUEUE if held else sender.action(tables_of(steps), on_error)
    if action is ErrorAction.STOP or action in QUIET:
        raise _refusal(parked, action)
    aside, resolved = steps, 0
    if action is ErrorAction.SKIP_ROW and sure:
        aside, resolved, why = _skip_rows(shipment, sender, steps, parked.why)
        parked = replace(parked, why=why)
    if aside is not steps:
        sources = provenance.set_aside(parked.sources or {}, sender.master)
        parked = replace(parked, sources=sources)
    gone = shipment.gone if steps.unfit is not None else {}
    types = {one: its.columns() for one, its in gone.items()}
    error_id = park(connection, parked, aside, shipment.narrower, types)
    if steps.unfit is not None:
        complete(connection, error_id)
    if action is ErrorAction.QUIET_GROUP and parked.why.reason != DEPENDANT:
        quiet = [
            table
            for table in tables_of(steps)
            if sender.action([table], on_error) is ErrorAction.QUIET_GROUP
        ]
        said = (
            f"Transaction {parked.origin_transaction} of {parked.origin} was parked: "
            f"{parked.why.message}"
        )
        shipment.relay.parked(connection, sender, quiet, said)
    return Delivered(error_id=error_id, resolved=resolved, held=held)


def _skip_rows(
    shipment: Shipment, sender: Sender, steps: Steps, failed: ParkReason
) -> tuple[Steps, int, ParkReason]:
    """Apply a transaction without its rows in conflict (Ingres: SkipRow).

    Rows that refer to a key or unique value of such a row are left out with it.

    Returns:
        The steps that the caller has to park, how many conflicts were resolved in the
        rest, and why the parked steps were not applied. If the rest cannot be applied
        either, all steps are to be parked.
    """
    connection = shipment.target
    found = dict(failed.conflicts)
    while failed.reason == "conflict" and failed.conflicts and not steps.calls:
        for call_no in skipped.following(connection, steps, list(found)):
            found[call_no] = skipped.REASON
        rest, aside = skipped.split_conflicts(connection, steps, list(found))
        if not rest.changed:
            break
        answer = try_apply(shipment, sender, rest)
        if isinstance(answer, Outcome):
            return aside, answer.resolved, replace(failed, conflicts=found)
        failed = answer
        found |= answer.conflicts
    skipped.rejoin(connection, steps)
    return steps, 0, replace(failed, conflicts=found)


def _refusal(parked: Parked, action: ErrorAction) -> TransactionRefused:
    kind = DestinationQuiet if action in QUIET else TransactionRefused
    return kind(
        f"Transaction {parked.origin_transaction} cannot be applied: "
        f"{parked.why.message}",
        transaction=parked.origin_transaction,
        reason=parked.why.reason,
        error_code=parked.why.code,
        action=action.value,
    )
