"""The method cascade: foreign keys of the master may act on further rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from masters.resolution.conflict import Conflict, Decision, Kind, Resolution, undecided
from masters.resolution.plain import Plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Cascade(Plain):
    """Snaptide: a change may take along rows that foreign keys of the master reach.

    For the conflict of a delete, or of a change of a key or unique value, if the row is
    referred to by rows that the site did not know or that a rule has kept. These rows
    are deleted too, or lose their reference, as ON DELETE or ON UPDATE of their foreign
    key says, and the record names them. If the row itself has changed or is gone, the
    method decides nothing.
    """

    name: ClassVar[str] = "cascade"
    kinds: ClassVar[frozenset[Kind]] = frozenset({Kind.DELETE})

    def __call__(self, conflict: Conflict) -> Resolution:
        if not conflict.takes_along:
            return undecided("the change affects no other row")
        what = "delete cascades" if conflict.new is None else "change reaches others"
        return Resolution(decision=Decision.SITE_WINS, reason=f"the {what}")
