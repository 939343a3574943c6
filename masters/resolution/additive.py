"""The method additive: the master adds the site's difference to its own value."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, DecimalException
from typing import ClassVar, Self

from masters.resolution.conflict import Conflict, Decision, Kind, Resolution, undecided
from masters.resolution.method import check_names, null_side, value_of
from masters.resolution.numbers import EXACT, Number, single_column
from masters.resolution.takes import Takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Additive:
    """Oracle, ADDITIVE: current := current + (new - old), for one numeric column.

    The origin of the change stays, as in Oracle: each master adds the difference
    itself. (Virtuoso's `add` computes the same and changes the origin, so that
    two masters would count the difference twice.) NULL in old, new or current,
    infinities and NaN decide nothing. Equal values are decided: two sites that
    both add 5 make 10.
    """

    name: ClassVar[str] = "additive"
    kinds: ClassVar[frozenset[Kind]] = frozenset({Kind.UPDATE})

    column: str

    @classmethod
    def build(cls, parameters: Mapping[str, object], columns: Sequence[str]) -> Self:
        check_names(cls.name, parameters)
        return cls(column=single_column(cls.name, columns))

    def reads(self) -> frozenset[str]:
        return frozenset({self.column})

    def takes(self) -> Mapping[str, Takes]:
        return {self.column: Takes.NUMBER}

    def __call__(self, conflict: Conflict) -> Resolution:
        if reason := null_side(conflict, self.column, "old", "new", "current"):
            return undecided(reason)
        old, new, current = (
            value_of(row, self.column)
            for row in (conflict.old, conflict.new, conflict.current)
        )
        total = _total(old, new, current)
        if total is None:
            return undecided(
                f"{self.column}: {current} + ({new} - {old}) is not a finite number"
            )
        return Resolution(
            decision=Decision.SITE_WINS,
            values={self.column: total},
            reason=f"{self.column}: {current} + ({new} - {old}) = {total}",
        )


def _total(old: object, new: object, current: object) -> Number | None:
    """current + (new - old) in the type of the column; None if that is no number."""
    match old, new, current:
        case (bool(), _, _) | (_, bool(), _) | (_, _, bool()):
            return None
        case (int(o), int(n), int(c)):
            return c + (n - o)
        case (float(o), float(n), float(c)):
            total = c + (n - o)
            return total if math.isfinite(total) else None
        case (Decimal() as o, Decimal() as n, Decimal() as c):
            return _exact(o, n, c)
    return None


def _exact(old: Decimal, new: Decimal, current: Decimal) -> Decimal | None:
    if not (old.is_finite() and new.is_finite() and current.is_finite()):
        return None
    try:
        return EXACT.add(current, EXACT.subtract(new, old))
    except DecimalException:
        return None
