"""The destination's answer to a transaction: applied whole, or the reason why not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from deferred import sqlstate
from deferred.batches import footprint, lost_rows
from deferred.batches.footprint import Relation
from deferred.batches.sender import Sender
from deferred.batches.shipment import Shipment
from deferred.error_catalog import COLUMN_GONE, COLUMN_GONE_SINCE
from deferred.errors import (
    GivesGoneColumn,
    GroupQuiet,
    PredecessorLost,
    ProcedureFailed,
    ProcedureNotAllowed,
    UnresolvedConflict,
    WaitsForError,
)
from deferred.parked import error_dependencies, error_queue, skipped
from deferred.procedures.steps import Steps, apply, refusal
from masters.apply import Outcome
from masters.errors import InvalidNetChange
from masters.rules import table_rules
from sites import QualifiedName
from sites.errors import NoFreeValue, RowCountMismatch, ValueDoesNotFit
from sites.sessions import revisions
from sites.words import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkReason:
    """Why a transaction was not applied, as the error queue shows it."""

    #: conflict, error, dependant, quiet or column gone
    reason: str
    code: str
    message: str
    #: call number -> the conflict that no rule settled
    conflicts: Mapping[int, str] = field(default_factory=dict)
    #: error transactions that have to be settled first
    waits_for: tuple[int, ...] = ()
    #: it starts from a row that the destination cannot have
    begins_elsewhere: bool = False

    @property
    def may_follow(self) -> bool:
        """Whether a transaction that was parked earlier can be the reason."""
        return (
            self.reason == "conflict"
            or self.begins_elsewhere
            or self.code in sqlstate.FOREIGN_KEY_VIOLATIONS
        )


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
        return ParkReason(
            reason=error_dependencies.HELD,
            code=GroupQuiet.code,
            message=held,
            waits_for=waits_for,
        )
    if relation.lost:
        return ParkReason(
            reason=error_dependencies.DEPENDANT,
            code=PredecessorLost.code,
            message=error_dependencies.LOST,
            waits_for=waits_for,
        )
    if relation.certain:
        return ParkReason(
            reason=error_dependencies.DEPENDANT,
            code=WaitsForError.code,
            message=_waits(waits_for),
            waits_for=waits_for,
        )
    answer = _applied(connection, steps, resolving=sure and not waits_for)
    if isinstance(answer, ParkReason) and waits_for and answer.may_follow:
        return replace(
            answer,
            reason=error_dependencies.DEPENDANT,
            code=WaitsForError.code,
            message=f"{_waits(waits_for)} {answer.message}",
            waits_for=waits_for,
        )
    return answer


def skip_rows(
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


def tables_of(steps: Steps) -> list[QualifiedName]:
    return [staged.table.qualified for staged in steps.changed]


def _applied(
    connection: Connection, steps: Steps, *, resolving: bool
) -> Outcome | ParkReason:
    try:
        outcome = apply(connection, steps, resolving=resolving)
    except DBAPIError as error:
        if not sqlstate.caused_by_data(error):
            raise
        return _failure(connection, steps, error)
    except ValueDoesNotFit as error:
        return ParkReason(
            reason="error",
            code=str(error.facts["sqlstate"]),
            message=error.message,
            begins_elsewhere=bool(error.facts["starts"]),
        )
    except GivesGoneColumn as error:
        reason = _known_there(connection, COLUMN_GONE)
        return ParkReason(reason=reason, code=error.code, message=error.message)
    except (RowCountMismatch, InvalidNetChange, NoFreeValue) as error:
        return ParkReason(reason="error", code=error.code, message=error.message)
    except (ProcedureFailed, ProcedureNotAllowed) as error:
        return ParkReason(
            reason="error",
            code=error.code,
            message=error.message,
            conflicts={error.call_no: error.message},
        )
    if not outcome.unresolved:
        return outcome
    return ParkReason(
        reason="conflict",
        code=UnresolvedConflict.code,
        message=_summary(outcome),
        conflicts=outcome.unresolved,
    )


def _known_there(connection: Connection, reason: str) -> str:
    """A reason, unless the destination's schema is of before it was one."""
    known = revisions.of_site(connection) or ""
    return reason if known >= COLUMN_GONE_SINCE else "error"


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
    tables = [staged.table.qualified for staged in steps.changed]
    return all(table_rules.load(connection, t).comparison.all_sent for t in tables)


def _failure(connection: Connection, steps: Steps, error: DBAPIError) -> ParkReason:
    state = sqlstate.of(error)
    return ParkReason(
        reason="conflict" if state == sqlstate.UNIQUE_VIOLATION else "error",
        code=state,
        message=_beyond(steps, error) or refusal(connection, steps, error),
    )


def _beyond(steps: Steps, error: DBAPIError) -> str | None:
    """What a policy of a publication has refused; None if it was something else."""
    divided = [str(one.table.qualified) for one in steps.changed if one.table.divided]
    if not (divided and sqlstate.of(error) == sqlstate.NO_RIGHT):
        return None
    return (
        f"It makes a row of {', '.join(divided)} one that the master does not grant to "
        "this site. Nothing of it was applied."
    )


def _summary(outcome: Outcome) -> str:
    reasons = list(dict.fromkeys(outcome.unresolved.values()))
    rest = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return f"{counted(len(outcome.unresolved), 'row')} in conflict: {reasons[0]}{rest}"


def _waits(waits_for: tuple[int, ...]) -> str:
    return f"Depends on error transaction {', '.join(map(str, waits_for))}."
