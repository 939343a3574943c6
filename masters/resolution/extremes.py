"""Four methods by which the side with the higher or the lower value wins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from masters.resolution.conflict import Conflict, Kind, Resolution
from masters.resolution.method import Tie, check_names, chosen, deciding_column
from masters.resolution.order import decide, magnitude, moment
from masters.resolution.takes import Takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Extreme:
    """The common base of the four: an order, and which end of it wins.

    The answer depends only on which side's value is higher, and the reason names both
    values (`order.words`).
    """

    name: ClassVar[str]
    kinds: ClassVar[frozenset[Kind]] = frozenset({Kind.UPDATE})
    #: what the column holds
    holds: ClassVar[Takes]
    lower_wins: ClassVar[bool]

    column: str
    tie: Tie

    @classmethod
    def build(cls, parameters: Mapping[str, object], columns: Sequence[str]) -> Self:
        check_names(cls.name, parameters, required=["column"], optional=["tie"])
        return cls(
            column=deciding_column(cls.name, parameters["column"], columns),
            tie=chosen(cls.name, parameters, "tie", Tie.UNDECIDED),
        )

    def reads(self) -> frozenset[str]:
        return frozenset({self.column})

    def takes(self) -> Mapping[str, Takes]:
        return {self.column: self.holds}

    def __call__(self, conflict: Conflict) -> Resolution:
        return decide(
            conflict,
            self.column,
            moment if self.holds is Takes.MOMENT else magnitude,
            lower_wins=self.lower_wins,
            tie=self.tie,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Maximum(Extreme):
    """Oracle, MAXIMUM: the side whose column holds the higher value wins the group.

    Equal values, or NULL on either side, decide nothing: give a backup. Text is
    compared by code point, an enumeration by the text of its labels (use priority
    group to rank them otherwise), and NaN is above all numbers.

    Parameters:
        column: a column of the group: numbers, dates, times, text, bytes or uuid.
        tie: undecided (the default, Oracle), site (Virtuoso's max) or master.
    """

    name: ClassVar[str] = "maximum"
    holds: ClassVar[Takes] = Takes.ORDERED
    lower_wins: ClassVar[bool] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Minimum(Extreme):
    """Oracle, MINIMUM: the side whose column holds the lower value wins the group.

    Equal values, or NULL on either side, decide nothing: give a backup. Text is
    compared by code point, an enumeration by the text of its labels (use priority
    group to rank them otherwise), and NaN is above all numbers.

    Parameters:
        column: a column of the group: numbers, dates, times, text, bytes or uuid.
        tie: undecided (the default, Oracle), site (Virtuoso's min) or master.
    """

    name: ClassVar[str] = "minimum"
    holds: ClassVar[Takes] = Takes.ORDERED
    lower_wins: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestTimestamp(Extreme):
    """Oracle, LATEST TIMESTAMP: the side whose stamp is newer wins the group.

    Equal stamps, or NULL on either side, decide nothing: give a backup such as
    site priority. The application or a trigger of the user sets the stamp.

    Parameters:
        column: a date or timestamp column of the group.
        tie: undecided (the default, Oracle's rule), site or master.
    """

    name: ClassVar[str] = "latest_timestamp"
    holds: ClassVar[Takes] = Takes.MOMENT
    lower_wins: ClassVar[bool] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EarliestTimestamp(Extreme):
    """Oracle, EARLIEST TIMESTAMP: the side whose stamp is older wins the group.

    Equal stamps, or NULL on either side, decide nothing: give a backup such as
    site priority. The application or a trigger of the user sets the stamp.

    Parameters:
        column: a date or timestamp column of the group.
        tie: undecided (the default, Oracle's rule), site or master.
    """

    name: ClassVar[str] = "earliest_timestamp"
    holds: ClassVar[Takes] = Takes.MOMENT
    lower_wins: ClassVar[bool] = True
