"""Cascade."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from masters.resolution.conflict import Conflict, Decision, Kind, Resolution, undecided
from masters.resolution.plain import Plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Cascade(Plain):
    """Snaptide: a change may take along what the foreign keys of the master reach.

    For the conflict of a delete, or a change of a key or unique value, whose row
    others refer to, which its site did not know or a rule has kept: they are deleted
    with it, or lose their reference, as ON DELETE or ON UPDATE of their foreign key
    says, and the record names them. Where the row itself has changed or is gone, it
    decides nothing.
    """

    name: ClassVar[str] = "cascade"
    kinds: ClassVar[frozenset[Kind]] = frozenset({Kind.DELETE})

    def __call__(self, conflict: Conflict) -> Resolution:
        if not conflict.takes_along:
            return undecided("the change takes no other row along")
        what = "delete cascades" if conflict.new is None else "change reaches others"
        return Resolution(decision=Decision.SITE_WINS, reason=f"the {what}")
