"""Latest timestamp."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import ClassVar, Self

from masters.conflict import Conflict, Kind, Resolution, undecided
from masters.resolution.method import (
    check_names,
    deciding_column,
    higher_wins,
    null_side,
    value_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestTimestamp:
    """Oracle, LATEST TIMESTAMP: the side whose stamp is newer wins the group.

    Equal stamps, or NULL on either side, decide nothing: give a backup such as
    site priority. The stamp is kept by the application or a trigger of the user.

    Parameters:
        column: a date or timestamp column of the group.
    """

    name: ClassVar[str] = "latest_timestamp"
    kinds: ClassVar[frozenset[Kind]] = frozenset({Kind.UPDATE})

    column: str

    @classmethod
    def build(cls, parameters: Mapping[str, object], columns: Sequence[str]) -> Self:
        check_names(cls.name, parameters, required=["column"])
        return cls(column=deciding_column(cls.name, parameters["column"], columns))

    def __call__(self, conflict: Conflict) -> Resolution:
        if reason := null_side(conflict, self.column, "new", "current"):
            return undecided(reason)
        new = value_of(conflict.new, self.column)
        current = value_of(conflict.current, self.column)
        if not (isinstance(new, date) and isinstance(current, date)):
            return undecided(f"{self.column} holds no date or timestamp")
        reason = f"{self.column}: {new} against {current}"
        try:
            return higher_wins(_moment(new), _moment(current), reason)
        except (TypeError, OverflowError):
            return undecided(f"{self.column}: {new} and {current} do not compare")


def _moment(value: date) -> tuple[int] | tuple[int, date]:
    """A rank: -infinity, then real moments, then infinity, with a zone or without.

    Moments with a zone are compared in UTC: Python compares two of one zone by
    the clock on the wall, which is wrong in the hour that daylight saving repeats.
    """
    bare = value.replace(tzinfo=None) if isinstance(value, datetime) else value
    if bare == type(bare).max:
        return (1,)
    if bare == type(bare).min:
        return (-1,)
    if isinstance(value, datetime) and value.tzinfo is not None:
        return 0, value.astimezone(UTC)
    return 0, value
