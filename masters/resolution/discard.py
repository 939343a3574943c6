"""Discard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from masters.conflict import Conflict, Decision, Kind, Resolution
from masters.resolution.method import check_names
from masters.resolution.takes import Takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Discard:
    """Oracle, DISCARD: the master's values stay in the group.

    For a uniqueness conflict the incoming row is dropped as a whole. Nothing is
    compared, so NULL and equal values are decided like any other.
    """

    name: ClassVar[str] = "discard"
    kinds: ClassVar[frozenset[Kind]] = frozenset({Kind.UPDATE, Kind.UNIQUENESS})

    @classmethod
    def build(cls, parameters: Mapping[str, object], columns: Sequence[str]) -> Self:
        check_names(cls.name, parameters)
        return cls()

    def reads(self) -> frozenset[str]:
        return frozenset()

    def takes(self) -> Mapping[str, Takes]:
        return {}

    def __call__(self, conflict: Conflict) -> Resolution:
        if conflict.kind is Kind.UNIQUENESS:
            return Resolution(
                decision=Decision.IGNORE, reason="the incoming row is dropped"
            )
        return Resolution(
            decision=Decision.MASTER_WINS, reason="the master's values stay"
        )
