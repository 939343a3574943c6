"""Latest timestamp."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from masters.conflict import Conflict, Kind, Resolution
from masters.resolution.method import Tie, check_names, deciding_column, tie_of
from masters.resolution.order import decide, moment
from masters.resolution.takes import Takes


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestTimestamp:
    """Oracle, LATEST TIMESTAMP: the side whose stamp is newer wins the group.

    Equal stamps, or NULL on either side, decide nothing: give a backup such as
    site priority. The stamp is kept by the application or a trigger of the user.

    Parameters:
        column: a date or timestamp column of the group.
        tie: undecided (the default, Oracle's rule), site or master.
    """

    name: ClassVar[str] = "latest_timestamp"
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
        return {self.column: Takes.MOMENT}

    def __call__(self, conflict: Conflict) -> Resolution:
        return decide(conflict, self.column, moment, tie=self.tie)
