"""The method priority group: the value of higher priority wins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import ClassVar, Self
from uuid import UUID

from masters.resolution.conflict import Conflict, Kind, Resolution, undecided
from masters.resolution.method import (
    check_names,
    deciding_column,
    higher_wins,
    null_side,
    value_of,
)
from masters.resolution.numbers import Number, numbered
from masters.resolution.takes import Takes


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityGroup:
    """Oracle, PRIORITY GROUP: the value of higher priority wins the group.

    The same priority, a value that is not listed, or NULL on either side decides
    nothing.

    Parameters:
        column: a column of the group.
        priorities: values of the column and their priority; the higher number wins.
            Values are given as text: true and false, numbers without trailing zeros
            after the point, dates as 2026-03-01.
    """

    name: ClassVar[str] = "priority_group"
    kinds: ClassVar[frozenset[Kind]] = frozenset({Kind.UPDATE})

    column: str
    priorities: Mapping[str, Number]

    @classmethod
    def build(cls, parameters: Mapping[str, object], columns: Sequence[str]) -> Self:
        check_names(cls.name, parameters, required=["column", "priorities"])
        return cls(
            column=deciding_column(cls.name, parameters["column"], columns),
            priorities=numbered(cls.name, "priorities", parameters["priorities"]),
        )

    def reads(self) -> frozenset[str]:
        return frozenset({self.column})

    def takes(self) -> Mapping[str, Takes]:
        return {self.column: Takes.NAMED}

    def __call__(self, conflict: Conflict) -> Resolution:
        if reason := null_side(conflict, self.column, "new", "current"):
            return undecided(reason)
        new = value_of(conflict.new, self.column)
        current = value_of(conflict.current, self.column)
        theirs, ours = self._priority(new), self._priority(current)
        if theirs is None or ours is None:
            unlisted = new if theirs is None else current
            return undecided(f"{self.column}: {unlisted!r} has no priority")
        reason = f"{self.column}: {new} ({theirs}) against {current} ({ours})"
        return higher_wins(theirs, ours, reason)

    def _priority(self, value: object) -> Number | None:
        text = _text(value)
        if text is None:
            return None
        # character(n) comes with its padding
        return self.priorities.get(text, self.priorities.get(text.rstrip(" ")))


def _text(value: object) -> str | None:
    """A value as the parameter spells it; None if it cannot spell such a value."""
    match value:
        case bool():
            return str(value).lower()
        case Decimal() if value.is_finite():
            text = f"{value:f}"
            return text.rstrip("0").rstrip(".") if "." in text else text
        case str() | int() | float() | date() | UUID():
            return str(value)
    return None
