"""Why a transaction was not applied, as the error queue shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from deferred import sqlstate
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
from deferred.parked.error_dependencies import DEPENDANT, HELD, LOST
from deferred.procedures.steps import Steps, refusal
from masters.apply import Outcome
from sites.errors import SnaptideError, ValueDoesNotFit
from sites.sessions import revisions
from sites.words import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkReason:
    """Why a transaction was not applied."""

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


def held(why: str, waits_for: tuple[int, ...]) -> ParkReason:
    """A group of its tables is quiet."""
    return ParkReason(
        reason=HELD, code=GroupQuiet.code, message=why, waits_for=waits_for
    )


def lost(waits_for: tuple[int, ...]) -> ParkReason:
    """It depends on a row that its site has and the destination does not."""
    return ParkReason(
        reason=DEPENDANT, code=PredecessorLost.code, message=LOST, waits_for=waits_for
    )


def waits(waits_for: tuple[int, ...], because: str = "") -> ParkReason:
    """It depends on others that are parked.

    Parameters:
        because: why it failed, if it was tried.
    """
    said = f"Depends on error transaction {', '.join(map(str, waits_for))}."
    return ParkReason(
        reason=DEPENDANT,
        code=WaitsForError.code,
        message=f"{said} {because}".rstrip(),
        waits_for=waits_for,
    )


def conflict(outcome: Outcome) -> ParkReason:
    """Rows of it are in conflict, and no rule settles that."""
    reasons = list(dict.fromkeys(outcome.unresolved.values()))
    rest = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    rows = counted(len(outcome.unresolved), "row")
    return ParkReason(
        reason="conflict",
        code=UnresolvedConflict.code,
        message=f"{rows} in conflict: {reasons[0]}{rest}",
        conflicts=outcome.unresolved,
    )


def failure(
    connection: Connection, steps: Steps, error: DBAPIError | SnaptideError
) -> ParkReason:
    """What stopped it when it was applied.

    Raises:
        sqlalchemy.exc.DBAPIError: the same, if the data is not the reason.
    """
    if isinstance(error, DBAPIError):
        if not sqlstate.caused_by_data(error):
            raise error
        return _refused(connection, steps, error)
    if isinstance(error, ValueDoesNotFit):
        return ParkReason(
            reason="error",
            code=str(error.facts["sqlstate"]),
            message=error.message,
            begins_elsewhere=bool(error.facts["starts"]),
        )
    return ParkReason(
        reason=_kind(connection, error),
        code=error.code,
        message=error.message,
        conflicts={error.call_no: error.message}
        if isinstance(error, ProcedureFailed | ProcedureNotAllowed)
        else {},
    )


def _kind(connection: Connection, error: SnaptideError) -> str:
    """Whether a column is gone, as long as the destination's schema knows that."""
    known = isinstance(error, GivesGoneColumn) and (
        (revisions.of_site(connection) or "") >= COLUMN_GONE_SINCE
    )
    return COLUMN_GONE if known else "error"


def _refused(connection: Connection, steps: Steps, error: DBAPIError) -> ParkReason:
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
