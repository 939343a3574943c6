"""Overwrite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from masters.conflict import Conflict, Decision, Kind, Resolution
from masters.resolution.method import check_names
from masters.resolution.takes import Takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Overwrite:
    """Oracle, OVERWRITE: the site's new values replace the master's.

    Nothing is compared, so NULL and equal values are decided like any other.
    """

    name: ClassVar[str] = "overwrite"
    kinds: ClassVar[frozenset[Kind]] = frozenset({Kind.UPDATE})

    @classmethod
    def build(cls, parameters: Mapping[str, object], columns: Sequence[str]) -> Self:
        check_names(cls.name, parameters)
        return cls()

    def reads(self) -> frozenset[str]:
        return frozenset()

    def takes(self) -> Mapping[str, Takes]:
        return {}

    def __call__(self, conflict: Conflict) -> Resolution:
        return Resolution(decision=Decision.SITE_WINS, reason="the site's values apply")
