"""Delivering transactions: apply or park them, and move the marker with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from deferred import sqlstate
from deferred.batches import arrivals, footprint, forwarding, marker, work
from deferred.batches.batch import Batch, Waiting
from deferred.batches.footprint import Relation
from deferred.batches.marker import Marker
from deferred.errors import (
    DestinationQuiet,
    GroupQuiet,
    ProcedureFailed,
    ProcedureNotAllowed,
    TransactionRefused,
    UnresolvedConflict,
    WaitsForError,
)
from deferred.options import QUIET, ErrorAction
from deferred.parked import error_queue, quiet, skipped
from deferred.parked.parking import Parked, park
from deferred.procedures.steps import Steps, apply
from deferred.pushing import twice
from deferred.pushing.origin import Origin
from deferred.pushing.quieting import make_quiet
from masters import table_rules
from masters.apply import Outcome, Unit
from masters.detect import Made
from masters.errors import InvalidNetChange
from sites import QualifiedName, faults
from sites.errors import NoFreeValue, RowCountMismatch
from sites.staged import Staged


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """What became of one transaction."""

    #: False when the marker had moved past it: somebody else delivered it
    fresh: bool = True
    resolved: int = 0
    #: number in the error queue, when it was parked
    error_id: int | None = None
    #: it was parked for nothing but that its group is quiet
    held: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failed:
    """Why a transaction was not applied, as the error queue will tell it."""

    #: conflict, error, dependant or quiet
    reason: str
    code: str
    message: str
    #: call number -> what no rule settled
    conflicts: Mapping[int, str] = field(default_factory=dict)
    #: error transactions that have to be settled first
    waits_for: tuple[int, ...] = ()

    @property
    def may_follow(self) -> bool:
        """Whether a parked transaction before it can be the reason."""
        return self.reason == "conflict" or self.code in sqlstate.FOREIGN_KEY_VIOLATIONS


def deliver(
    connection: Connection,
    origin: Origin,
    batch: Batch,
    transaction: Waiting,
    staged: Sequence[Staged],
    on_error: ErrorAction = ErrorAction.QUEUE,
    told: Callable[[int], None] | None = None,
) -> Delivered:
    """Apply one transaction at the destination, or park it, exactly once.

    Runs in the caller's transaction, which must be committed as a whole.

    Parameters:
        told: from time to time how many of its changes are written.

    Raises:
        TransactionRefused: it would have to be parked, and is not to be.
        sqlalchemy.exc.DBAPIError: for reasons that are not the data's.
    """
    at = marker.lock(connection, origin.id, origin.name)
    to = Marker(batch_no=batch.number, batch_id=batch.id, order_no=transaction.order_no)
    if passed(at, to):
        return Delivered(fresh=False)
    faults.point("push.before_apply")
    sure, looked = True, connection.begin_nested() if at.watched else None
    if looked is not None:
        sure = twice.leave_out(connection, origin.name, transaction, staged)
    sources = forwarding.sources(transaction, origin.name, origin.groups.values())
    steps = _steps(connection, origin, transaction, staged, sources, told)
    answer = _answer(connection, origin, steps, sure=sure)
    if isinstance(answer, Outcome):
        delivered = Delivered(resolved=answer.resolved)
    else:
        held = answer.reason == quiet.REASON
        asked = origin.action(_tables(steps), on_error)
        action = ErrorAction.QUEUE if held else asked
        if action is ErrorAction.STOP or action in QUIET:
            if looked is not None:
                looked.rollback()  # it has not come
            raise _refusal(transaction, answer, action)
        aside, resolved = steps, 0
        if action is ErrorAction.SKIP_ROW and sure:
            aside, resolved, answer = _skip(connection, origin, steps, answer)
        parked = _facts(origin, batch, transaction, answer, sources)
        error_id = park(connection, parked, aside, answer.conflicts)
        if action is ErrorAction.QUIET_GROUP and answer.reason != "dependant":
            make_quiet(connection, origin, parked, _tables(steps), on_error)
        delivered = Delivered(error_id=error_id, resolved=resolved, held=held)
    if looked is not None:
        looked.commit()
    faults.point("push.after_apply")
    touched = {origin.groups.get(one.table.qualified) for one in steps.changed}
    arrived = {(name, sources[name]): 1 for name in touched if name is not None}
    arrivals.count(connection, origin.name, arrived)
    marker.move(connection, origin.id, to)
    return delivered


def _steps(
    connection: Connection,
    origin: Origin,
    transaction: Waiting,
    staged: Sequence[Staged],
    sources: Mapping[str, str],
    told: Callable[[int], None] | None,
) -> Steps:
    """A transaction as it lies in the work tables: a unit for each of its steps."""
    made = made_by(transaction)
    facts = forwarding.facts(transaction, origin.name, sources)
    calls = transaction.procedures
    return Steps(
        units=[
            Unit(
                number=number,
                staged=staged,
                counts=work.counts(connection, staged, number),
                origin=transaction.origin or origin.name,
                master=origin.master,
                made=lambda _: made,
                facts=facts,
                told=told,
            )
            for number in transaction.units
        ],
        calls=calls,
    )


def made_by(transaction: Waiting) -> Made:
    """Who made a transaction, for rules and the record."""
    return Made(
        transaction=transaction.xid,
        changed_at=transaction.start_time,
        origin=transaction.origin,
    )


def passed(at: Marker, to: Marker) -> bool:
    """Whether the destination has answered this transaction already.

    A marker in an older batch than the one before ours cannot be: `next_batch`
    has compared them. One in a later batch was moved by another pusher.
    """
    if at.batch_id == to.batch_id:
        return at.order_no >= to.order_no
    return at.batch_no >= to.batch_no


def _answer(
    connection: Connection, origin: Origin, steps: Steps, *, sure: bool = True
) -> Outcome | _Failed:
    """Apply one whole, or say why not; of one that failed nothing is written.

    Parameters:
        sure: it has certainly not come before; else no rule may settle a conflict.
    """
    there = quiet.in_the_way(connection, origin.id)
    relation = footprint.NOTHING
    if there.parked:
        relation = _dependence(connection, origin, steps)
    waits_for = relation.error_ids
    if held := quiet.of_tables(connection, _tables(steps)) if there.quiet else []:
        return _Failed(
            reason=quiet.REASON,
            code=GroupQuiet.code,
            message=" ".join(map(quiet.told, held)),
            waits_for=waits_for,
        )
    if relation.certain:
        return _Failed(
            reason="dependant",
            code=WaitsForError.code,
            message=_waits(waits_for),
            waits_for=waits_for,
        )
    answer = _applied(connection, steps, resolving=sure and not waits_for)
    if isinstance(answer, _Failed) and waits_for and answer.may_follow:
        return replace(
            answer,
            reason="dependant",
            code=WaitsForError.code,
            message=f"{_waits(waits_for)} {answer.message}",
            waits_for=waits_for,
        )
    return answer


def _applied(
    connection: Connection, steps: Steps, *, resolving: bool
) -> Outcome | _Failed:
    savepoint = connection.begin_nested()
    try:
        outcome = apply(connection, steps, resolving=resolving)
    except DBAPIError as error:
        if not sqlstate.caused_by_data(error):
            raise
        failed = _failure(error)
    except (RowCountMismatch, InvalidNetChange, NoFreeValue) as error:
        failed = _Failed(reason="error", code=error.code, message=error.message)
    except (ProcedureFailed, ProcedureNotAllowed) as error:
        failed = _Failed(
            reason="error",
            code=error.code,
            message=error.message,
            conflicts={error.call_no: error.message},
        )
    else:
        if not outcome.unresolved:
            savepoint.commit()
            return outcome
        failed = _Failed(
            reason="conflict",
            code=UnresolvedConflict.code,
            message=_summary(outcome),
            conflicts=outcome.unresolved,
        )
    savepoint.rollback()
    return failed


def _dependence(connection: Connection, origin: Origin, steps: Steps) -> Relation:
    """Parked transactions that this one may depend on, and whether it surely does.

    Asked where some are parked.

    It does when it starts from what a parked call would have made, or deletes
    a row that a parked call refers to; otherwise the master's rows decide. Where
    old values are not sent, nobody knows what it starts from.

    What a procedure looks at and makes is not known at all. So one that calls some
    waits for all that are parked; and a parked one that calls some may be the reason
    for whatever a later one meets.
    """
    unknown = error_queue.with_procedures(connection, origin.id)
    if steps.calls:
        everything = error_queue.numbers(connection, origin.id)
        return Relation(error_ids=everything, certain=True)
    found = footprint.relations(connection, origin.id, steps.changed, steps.rows)
    relation = found.get(steps.number, footprint.NOTHING).besides(unknown)
    if relation.error_ids and not _all_sent(connection, steps):
        return replace(relation, certain=True)
    return relation


def _all_sent(connection: Connection, steps: Steps) -> bool:
    tables = [staged.table.qualified for staged in steps.changed]
    return all(table_rules.load(connection, t).comparison.all_sent for t in tables)


def _tables(steps: Steps) -> list[QualifiedName]:
    return [staged.table.qualified for staged in steps.changed]


def _skip(
    connection: Connection, origin: Origin, steps: Steps, failed: _Failed
) -> tuple[Steps, int, _Failed]:
    """Apply a transaction without its rows in conflict (Ingres: SkipRow).

    Returns:
        What is left to be parked, how many conflicts were resolved in the rest, and
        why it was not applied. Where the rest cannot be applied either, all is left.
    """
    found = dict(failed.conflicts)
    while failed.reason == "conflict" and failed.conflicts and not steps.calls:
        rest, aside = skipped.divided(connection, steps, list(found))
        if not rest.changed:
            break
        answer = _answer(connection, origin, rest)
        if isinstance(answer, Outcome):
            return aside, answer.resolved, replace(failed, conflicts=found)
        failed = answer
        found |= answer.conflicts
    skipped.together(connection, steps)
    return steps, 0, replace(failed, conflicts=found)


def _refusal(
    transaction: Waiting, failed: _Failed, action: ErrorAction
) -> TransactionRefused:
    kind = DestinationQuiet if action in QUIET else TransactionRefused
    return kind(
        f"Transaction {transaction.xid} cannot be applied: {failed.message}",
        transaction=transaction.xid,
        reason=failed.reason,
        error_code=failed.code,
        action=action.value,
    )


def _facts(
    origin: Origin,
    batch: Batch,
    transaction: Waiting,
    failed: _Failed,
    sources: Mapping[str, str],
) -> Parked:
    return Parked(
        origin_id=origin.id,
        origin=transaction.origin or origin.name,
        sources=sources or None,
        origin_transaction=transaction.xid,
        origin_user=transaction.origin_user,
        batch_no=batch.number,
        order_no=transaction.order_no,
        start_time=transaction.start_time,
        reason=failed.reason,
        error_code=failed.code,
        error_message=failed.message,
        waits_for=failed.waits_for,
    )


def _failure(error: DBAPIError) -> _Failed:
    state = sqlstate.of(error)
    return _Failed(
        reason="conflict" if state == sqlstate.UNIQUE_VIOLATION else "error",
        code=state,
        message=sqlstate.message(error),
    )


def _summary(outcome: Outcome) -> str:
    reasons = list(dict.fromkeys(outcome.unresolved.values()))
    rest = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return f"{len(outcome.unresolved)} row(s) in conflict: {reasons[0]}{rest}"


def _waits(waits_for: tuple[int, ...]) -> str:
    return f"Depends on error transaction {', '.join(map(str, waits_for))}."
