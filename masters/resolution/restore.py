"""Restore."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from masters.conflict import Conflict, Decision, Kind, Resolution, undecided
from masters.resolution.method import check_names
from masters.resolution.takes import Takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """Virtuoso, publisher wins as its manual means it for deletes: the row comes back.

    A row that the site deleted while the master changed it stays, and the master
    sends it to everyone, the origin included. A row deleted on both sides is left
    alone. An update of a row that the master no longer has is undecided, for there
    is nothing to give back: put ignore behind it in the sequence, or another rule.
    """

    name: ClassVar[str] = "restore"
    kinds: ClassVar[frozenset[Kind]] = frozenset({Kind.DELETE})

    @classmethod
    def build(cls, parameters: Mapping[str, object], columns: Sequence[str]) -> Self:
        check_names(cls.name, parameters)
        return cls()

    def reads(self) -> frozenset[str]:
        return frozenset()

    def takes(self) -> Mapping[str, Takes]:
        return {}

    def __call__(self, conflict: Conflict) -> Resolution:
        if conflict.current is not None:
            return Resolution(
                decision=Decision.MASTER_WINS, reason="the site gets the row back"
            )
        if conflict.new is None:
            return Resolution(
                decision=Decision.IGNORE, reason="the row is deleted on both sides"
            )
        return undecided("the master has no row to give back")
