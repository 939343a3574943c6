"""The method append site name: the origin's name makes a text unique."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from masters.resolution import suffix
from masters.resolution.conflict import Conflict, Kind, Resolution, undecided
from masters.resolution.method import null_side
from masters.resolution.takes import Takes


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendSiteName:
    """Oracle, APPEND SITE NAME: the name of the origin is appended to the text.

    Only the part before the first period of the name is used: X from houston.world
    becomes Xhouston. A text that does not fit the column, NULL, and a column that is no
    text decide nothing. The site itself keeps X until it is refreshed.

    Parameters:
        column: a text column of the constraint.
        length: how many characters the column holds; without limit if not given.
    """

    name: ClassVar[str] = "append_site_name"
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
        value = base + conflict.origin.partition(".")[0]
        if self.length is not None and len(value) > self.length:
            return undecided(f"{self.column}: {value!r} is longer than {self.length}")
        return suffix.renamed(self.column, value)
