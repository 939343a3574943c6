"""Maximum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from masters.conflict import Conflict, Kind, Resolution
from masters.resolution.method import Tie, check_names, deciding_column, tie_of
from masters.resolution.order import decide, magnitude
from masters.resolution.takes import Takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Maximum:
    """Oracle, MAXIMUM: the side whose column holds the higher value wins the group.

    Equal values, or NULL on either side, decide nothing: give a backup. Text is
    compared by code point, an enumeration by the text of its labels (use priority
    group to rank them otherwise), and NaN is above all numbers.

    Parameters:
        column: a column of the group: numbers, dates, times, text, bytes or uuid.
        tie: undecided (the default, Oracle), site (Virtuoso's max) or master.
    """

    name: ClassVar[str] = "maximum"
    kinds: ClassVar[frozenset[Kind]] = frozenset({Kind.UPDATE})

    column: str
    tie: Tie

    @classmethod
    def build(cls, parameters: Mapping[str, object], columns: Sequence[str]) -> Self:
        check_names(cls.name, parameters, required=["column"], optional=["tie"])
        return cls(
            column=deciding_column(cls.name, parameters["column"], columns),
            tie=tie_of(cls.name, parameters),
        )

    def reads(self) -> frozenset[str]:
        return frozenset({self.column})

    def takes(self) -> Mapping[str, Takes]:
        return {self.column: Takes.ORDERED}

    def __call__(self, conflict: Conflict) -> Resolution:
        return decide(conflict, self.column, magnitude, tie=self.tie)
