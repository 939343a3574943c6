"""The method average: the mean of the site's and the master's value."""

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
class Average:
    """Oracle, AVERAGE: current := (current + new) / 2, for one numeric column.

    A numeric is exact, with one more digit when it needs one; the column rounds it
    to its own scale. For integers, a half is rounded away from zero, as PostgreSQL
    rounds a numeric to an integer. NULL in new or current, infinities and NaN
    decide nothing. Equal values are decided: they are their average.
    """

    name: ClassVar[str] = "average"
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
        if reason := null_side(conflict, self.column, "new", "current"):
            return undecided(reason)
        new = value_of(conflict.new, self.column)
        current = value_of(conflict.current, self.column)
        mean = _mean(new, current)
        if mean is None:
            return undecided(f"{self.column}: ({current} + {new}) / 2 is not a number")
        return Resolution(
            decision=Decision.SITE_WINS,
            values={self.column: mean},
            reason=f"{self.column}: ({current} + {new}) / 2 = {mean}",
        )


def _mean(new: object, current: object) -> Number | None:
    """The average in the type of the column; None if that is no number."""
    match new, current:
        case (bool(), _) | (_, bool()):
            return None
        case (int(n), int(c)):
            total = c + n
            half = (abs(total) + 1) // 2
            return half if total >= 0 else -half
        case (float(n), float(c)):
            mean = (c + n) / 2 if math.isfinite(c + n) else c / 2 + n / 2
            return mean if math.isfinite(mean) else None
        case (Decimal() as n, Decimal() as c):
            return _exact(n, c)
    return None


def _exact(new: Decimal, current: Decimal) -> Decimal | None:
    if not (new.is_finite() and current.is_finite()):
        return None
    try:
        return EXACT.divide(EXACT.add(current, new), Decimal(2))
    except DecimalException:
        return None
