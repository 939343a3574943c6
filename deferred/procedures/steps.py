"""A transaction in steps: row changes, a procedure, row changes, and so on.

Most transactions have one step, their net change. The calls of procedures of one that
has some divide its row changes; each step is folded, compared and written by itself,
after the procedure before it has run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from sqlalchemy import Connection

from deferred.batches.procedure_call import ProcedureCall
from deferred.procedures import perform
from masters import apply as masters_apply
from masters.apply import Outcome, Unit
from sites.staged import Staged


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """What a transaction does at its destination, in order."""

    #: row changes, one unit more than there are calls
    units: Sequence[Unit]
    #: each after the unit in the same place
    calls: Sequence[ProcedureCall] = ()

    @property
    def number(self) -> int:
        """By what work tables name it."""
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
        """What selects its row changes in the work tables."""
        return {"unit": tuple(unit.number for unit in self.units)}


def changed_in(unit: Unit) -> list[bool]:
    """For each of its work tables, whether a unit has changes there."""
    return [bool(count) for count in unit.counts]


def apply(connection: Connection, steps: Steps, *, resolving: bool = True) -> Outcome:
    """Apply a transaction whole, or say what stands in its way.

    Call it in a savepoint, as `masters.apply.apply`.

    Raises:
        ProcedureNotAllowed, ProcedureFailed: a procedure did not run, or not well.
        and what `masters.apply.apply` raises.
    """
    resolved = 0
    for place, (unit, call) in enumerate(zip_longest(steps.units, steps.calls)):
        last = call is None
        # The first says whose transaction it is, the last has constraints checked.
        if place == 0 or last or any(unit.counts):
            outcome = masters_apply.apply(
                connection, unit, resolving=resolving, last=last
            )
            if outcome.unresolved:
                return outcome
            resolved += outcome.resolved
        if call is not None:
            perform.at_destination(connection, call)
    return Outcome(resolved=resolved)
