"""The method append sequence: a number makes a text unique."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from masters.resolution import suffix
from masters.resolution.conflict import Conflict, Kind, Resolution, undecided
from masters.resolution.method import null_side
from masters.resolution.takes import Takes


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendSequence:
    """Oracle, APPEND SEQUENCE: a number of the master is appended to the text.

    The text is cut so that both fit the column; a number that alone is too long,
    NULL, and a column that is no text decide nothing. The number comes with the
    conflict (`Conflict.number`): the apply draws it, so that the method keeps no
    state and the record shows the number.

    Parameters:
        column: a text column of the constraint.
        length: how many characters the column holds; without limit if not given.
    """

    name: ClassVar[str] = "append_sequence"
    kinds: ClassVar[frozenset[Kind]] = frozenset({Kind.UNIQUENESS})

    column: str
    length: int | None

    @classmethod
    def build(cls, parameters: Mapping[str, object], columns: Sequence[str]) -> Self:
        return cls(**suffix.checked(cls.name, parameters, columns))

    def reads(self) -> frozenset[str]:
        return frozenset({self.column})

    def takes(self) -> Mapping[str, Takes]:
        return {self.column: Takes.TEXT}

    def __call__(self, conflict: Conflict) -> Resolution:
        if reason := null_side(conflict, self.column, "new"):
            return undecided(reason)
        base = suffix.base(conflict, self.column, self.length)
        if base is None:
            return undecided(f"{self.column} holds no text")
        if conflict.number is None:
            return undecided("no number was drawn for this conflict")
        number = str(conflict.number)
        if self.length is None:
            return suffix.renamed(self.column, base + number)
        if len(number) > self.length:
            return undecided(
                f"{self.column}: the number {number} alone is longer than {self.length}"
            )
        return suffix.renamed(self.column, base[: self.length - len(number)] + number)
