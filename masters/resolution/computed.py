"""Two methods that compute the number that both sides get."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation
from typing import Any, ClassVar, Self

from masters.errors import WrongColumnCount
from masters.resolution.conflict import Conflict, Decision, Kind, Resolution, undecided
from masters.resolution.method import check_names, null_side, value_of
from masters.resolution.numbers import Number
from masters.resolution.takes import Takes

#: Holds any sum of PostgreSQL's numeric (131,072 digits before the point and
#: 16,383 after it), and raises rather than round.
_EXACT = Context(prec=150_000, traps=[Inexact, InvalidOperation])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Computed:
    """The common base of both: one numeric column, and a formula for its value."""

    name: ClassVar[str]
    kinds: ClassVar[frozenset[Kind]] = frozenset({Kind.UPDATE})
    #: the rows whose values the formula takes
    sides: ClassVar[tuple[str, ...]]
    #: with the values' places
    formula: ClassVar[str]

    column: str

    @classmethod
    def build(cls, parameters: Mapping[str, object], columns: Sequence[str]) -> Self:
        check_names(cls.name, parameters)
        if len(columns) != 1:
            raise WrongColumnCount(
                f"{cls.name} needs a column group of one numeric column; this one has "
                f"{len(columns)}: {', '.join(columns)}.",
                method=cls.name,
                columns=tuple(columns),
            )
        return cls(column=columns[0])

    def reads(self) -> frozenset[str]:
        return frozenset({self.column})

    def takes(self) -> Mapping[str, Takes]:
        return {self.column: Takes.NUMBER}

    def __call__(self, conflict: Conflict) -> Resolution:
        if reason := null_side(conflict, self.column, *self.sides):
            return undecided(reason)
        values = [value_of(getattr(conflict, s), self.column) for s in self.sides]
        formula = self.formula.format(**dict(zip(self.sides, values, strict=True)))
        result = self._result(*values)
        if result is None:
            return undecided(f"{self.column}: {formula} is not a finite number")
        return Resolution(
            decision=Decision.SITE_WINS,
            values={self.column: result},
            reason=f"{self.column}: {formula} = {result}",
        )

    @abstractmethod
    def _result(self, *values: Any) -> Number | None:
        """The value in the type of the column; None if it is no finite number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Additive(_Computed):
    """Oracle, ADDITIVE: current := current + (new - old), for one numeric column.

    The origin of the change stays, as in Oracle: each master adds the difference
    itself. (Virtuoso's `add` computes the same and changes the origin, so that
    two masters would count the difference twice.) NULL in old, new or current,
    infinities and NaN decide nothing. Equal values are decided: two sites that
    both add 5 make 10.
    """

    name: ClassVar[str] = "additive"
    sides: ClassVar[tuple[str, ...]] = ("old", "new", "current")
    formula: ClassVar[str] = "{current} + ({new} - {old})"

    def _result(self, *values: Any) -> Number | None:
        match values:
            case (bool(), _, _) | (_, bool(), _) | (_, _, bool()):
                return None
            case (int(o), int(n), int(c)):
                return c + (n - o)
            case (float(o), float(n), float(c)):
                total = c + (n - o)
                return total if math.isfinite(total) else None
            case (Decimal() as o, Decimal() as n, Decimal() as c):
                return _exact(lambda: _EXACT.add(c, _EXACT.subtract(n, o)))
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Average(_Computed):
    """Oracle, AVERAGE: current := (current + new) / 2, for one numeric column.

    A numeric is exact, with one more digit when it needs one; the column rounds it
    to its own scale. For integers, a half is rounded away from zero, as PostgreSQL
    rounds a numeric to an integer. NULL in new or current, infinities and NaN
    decide nothing. Equal values are decided: they are their average.
    """

    name: ClassVar[str] = "average"
    sides: ClassVar[tuple[str, ...]] = ("new", "current")
    formula: ClassVar[str] = "({current} + {new}) / 2"

    def _result(self, *values: Any) -> Number | None:
        match values:
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
                return _exact(lambda: _EXACT.divide(_EXACT.add(c, n), Decimal(2)))
        return None


def _exact(compute: Callable[[], Decimal]) -> Decimal | None:
    """What is computed; None if it is infinite or NaN."""
    try:
        result = compute()
    except DecimalException:
        return None
    return result if result.is_finite() else None
