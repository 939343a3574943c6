"""A transaction in steps: row changes, a procedure, row changes, and so on.

Most transactions have one step, their net change. Procedure calls divide the row
changes of a transaction into steps; each step is folded, compared and written by
itself, after the procedure before it has run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from deferred import sqlstate
from deferred.batches.called import ProcedureCall
from deferred.errors import GivesGoneColumn, ProcedureFailed, ProcedureNotAllowed
from deferred.procedures import perform
from masters import apply as masters_apply
from masters.apply import ApplyUnit, Outcome
from masters.errors import InvalidNetChange
from sites.errors import NoFreeValue, RowCountMismatch, ValueDoesNotFit
from sites.writing import misfits
from sites.writing.staged import Staged

#: Reasons why a transaction cannot be applied, besides conflicts and database errors.
FAILURES = (
    RowCountMismatch,
    InvalidNetChange,
    NoFreeValue,
    ValueDoesNotFit,
    ProcedureFailed,
    ProcedureNotAllowed,
)

#: A larger transaction is not written row by row, which takes a second per 1000 rows.
MOST_ROWS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The row changes and procedure calls of a transaction, in order."""

    #: row changes, one unit more than there are calls
    units: Sequence[ApplyUnit]
    #: each runs after the unit at the same index
    calls: Sequence[ProcedureCall] = ()
    #: why not all of it could be shipped, if so
    unfit: ValueDoesNotFit | GivesGoneColumn | None = None
    #: whether its sender has parked transactions or lost rows here; None if not known
    parked: bool | None = None
    #: the caller commits after it, so its savepoint need not be released
    commits: bool = False

    @property
    def number(self) -> int:
        """Its number in work tables."""
        return self.units[-1].number

    @property
    def origin(self) -> str:
        """The site that made it."""
        return self.units[-1].origin

    @property
    def changed(self) -> list[Staged]:
        """The work tables in which it has row changes."""
        tables = zip(*(changed_in(unit) for unit in self.units), strict=True)
        return [
            staged
            for staged, has in zip(self.units[0].staged, tables, strict=True)
            if any(has)
        ]

    @property
    def rows(self) -> dict[str, tuple[int, ...]]:
        """The equalities that select its row changes in the work tables."""
        return {"unit": tuple(unit.number for unit in self.units)}


def changed_in(unit: ApplyUnit) -> list[bool]:
    """For each of its work tables, whether a unit has changes there."""
    return [bool(count) for count in unit.counts]


def apply(connection: Connection, steps: Steps, *, resolving: bool = True) -> Outcome:
    """Apply a transaction whole, or write nothing and return its conflicts.

    If the database refuses it as sets, it is tried row by row too, but not if it calls
    procedures, which do not run again, or has more than `MOST_ROWS` rows.

    Raises:
        ValueDoesNotFit, GivesGoneColumn: this database cannot hold some of its values.
        ProcedureNotAllowed, ProcedureFailed: a procedure may not run, or failed.
        and the errors of `masters.apply.apply`.
    """
    if steps.unfit is not None:
        raise steps.unfit
    try:
        applied = partial(_as_sets, connection, steps, resolving=resolving)
        return _kept(connection, applied, release=not steps.commits)
    except (DBAPIError, NoFreeValue) as refused:
        if not (_of_sets(refused) and _few_rows(steps)):
            raise
        again = _row_by_row(connection, steps, resolving=resolving)
        if again is None:
            raise
        return again


def refusal(connection: Connection, steps: Steps, error: DBAPIError) -> str:
    """Why the database refused a transaction, with the value if one was the reason.

    Call it after the transaction was rolled back.
    """
    if sqlstate.of_a_value(error):
        for staged in steps.changed:
            if found := misfits.find(connection, staged, steps.rows):
                return found
    return sqlstate.message(error)


def _kept(
    connection: Connection, applied: Callable[[], Outcome], *, release: bool = True
) -> Outcome:
    """Keep what was applied if it was applied whole; else roll back to a savepoint.

    After other failures than those of `_keeps_savepoint`, it may no longer exist.

    Parameters:
        release: False leaves the savepoint to the commit.
    """
    savepoint = connection.begin_nested()
    try:
        outcome = applied()
    except (DBAPIError, *FAILURES) as error:
        if not isinstance(error, DBAPIError) or _keeps_savepoint(error):
            savepoint.rollback()
        raise
    if outcome.unresolved:
        savepoint.rollback()
    elif release:
        savepoint.commit()
    return outcome


def _keeps_savepoint(error: DBAPIError) -> bool:
    return sqlstate.caused_by_data(error) or sqlstate.held_up(error)


def _as_sets(connection: Connection, steps: Steps, *, resolving: bool) -> Outcome:
    resolved, takes_away = 0, False
    for place, (unit, call) in enumerate(zip_longest(steps.units, steps.calls)):
        last = call is None
        # The first unit sets the transaction's origin; the last checks constraints.
        if place == 0 or last or any(unit.counts):
            later = any(any(changed_in(one)) for one in steps.units[place + 1 :])
            outcome = masters_apply.apply(
                connection,
                replace(unit, goes_on=later),
                resolving=resolving,
                last=last,
            )
            if outcome.unresolved:
                return outcome
            resolved += outcome.resolved
            takes_away = takes_away or outcome.takes_away
        if call is not None:
            perform.at_destination(connection, call, unit.facts)
    return Outcome(resolved=resolved, takes_away=takes_away)


def _of_sets(refused: DBAPIError | NoFreeValue) -> bool:
    """Whether rows that fail in this way as sets may succeed one after the other."""
    if isinstance(refused, NoFreeValue):
        return True
    return sqlstate.of(refused) in sqlstate.OF_CONSTRAINTS


def _few_rows(steps: Steps) -> bool:
    size = sum(sum(count.values()) for count in steps.units[-1].counts)
    return not steps.calls and 1 < size <= MOST_ROWS


def _row_by_row(
    connection: Connection, steps: Steps, *, resolving: bool
) -> Outcome | None:
    """Apply a transaction in the order of its calls; None if that fails too."""
    [unit] = steps.units
    applied = partial(
        masters_apply.apply, connection, unit, resolving=resolving, row_by_row=True
    )
    try:
        outcome = _kept(connection, applied)
    except DBAPIError as error:
        if not sqlstate.caused_by_data(error):
            raise
        return None
    except (RowCountMismatch, NoFreeValue):
        return None
    return None if outcome.unresolved else outcome
