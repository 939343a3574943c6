"""The method site priority: the row of the site with the higher number wins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

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
class SitePriority:
    """Oracle, SITE PRIORITY: the row of the site that has the higher number wins.

    The column, set by a trigger of the user, holds the name of the site that last
    updated the row, and the method compares the sites of the two rows. Without a column
    it compares the site that pushes with the master itself: the current row counts as
    the master's, even if a site of a higher number wrote it. The same number, a site
    without one, or NULL on either side decides nothing.

    Parameters:
        priorities: names of sites and their priority; the higher number wins.
        column: optional, a column of the group that holds the name of a site.
    """

    name: ClassVar[str] = "site_priority"
    kinds: ClassVar[frozenset[Kind]] = frozenset({Kind.UPDATE})

    priorities: Mapping[str, Number]
    column: str | None = None

    @classmethod
    def build(cls, parameters: Mapping[str, object], columns: Sequence[str]) -> Self:
        check_names(cls.name, parameters, required=["priorities"], optional=["column"])
        column = parameters.get("column")
        return cls(
            priorities=numbered(cls.name, "priorities", parameters["priorities"]),
            column=(
                None if column is None else deciding_column(cls.name, column, columns)
            ),
        )

    def reads(self) -> frozenset[str]:
        return frozenset() if self.column is None else frozenset({self.column})

    def takes(self) -> Mapping[str, Takes]:
        return {} if self.column is None else {self.column: Takes.LABEL}

    def __call__(self, conflict: Conflict) -> Resolution:
        if self.column is None:
            return self._compare(conflict.origin, conflict.master)
        if reason := null_side(conflict, self.column, "new", "current"):
            return undecided(reason)
        return self._compare(
            value_of(conflict.new, self.column), value_of(conflict.current, self.column)
        )

    def _compare(self, new: object, current: object) -> Resolution:
        theirs, ours = self._priority(new), self._priority(current)
        if theirs is None or ours is None:
            unlisted = new if theirs is None else current
            return undecided(f"site {unlisted!r} has no priority")
        return higher_wins(theirs, ours, f"{new} ({theirs}) against {current} ({ours})")

    def _priority(self, site: object) -> Number | None:
        return self.priorities.get(site) if isinstance(site, str) else None
