"""Informix's conflict rule always: the site's row is always applied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from masters.resolution.conflict import Conflict, Decision, Kind, Resolution
from masters.resolution.plain import Plain


@dataclass(frozen=True, slots=True, kw_only=True)
class InformixAlways(Plain):
    """Informix, --conflict=always: the master's row becomes equal to the site's.

    An insert overwrites the row that is there, an update inserts the row that is gone,
    a delete removes the row or finds it gone already. Update conflicts are decided as
    by overwrite. Give the rule to the primary key; Informix has none for another
    constraint.
    """

    name: ClassVar[str] = "informix_always"
    kinds: ClassVar[frozenset[Kind]] = frozenset(Kind)
    #: one version stays, and rows that refer to it stay, too
    versions_of_one_row: ClassVar[bool] = True

    def __call__(self, conflict: Conflict) -> Resolution:
        gone = conflict.current is None and conflict.new is None
        if conflict.kind is Kind.DELETE and gone:
            return Resolution(
                decision=Decision.IGNORE, reason="the row is already gone"
            )
        return Resolution(decision=Decision.SITE_WINS, reason="the site's row applies")
