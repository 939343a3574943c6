"""Ignore."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from masters.conflict import Conflict, Decision, Kind, Resolution
from masters.resolution.method import check_names
from masters.resolution.takes import Takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignore:
    """Virtuoso, the default of its delete conflicts: the call is dropped.

    A row that was to be deleted stays as the master has it, one that was to be
    updated stays deleted, and nobody is told. A snapshot becomes equal again at its
    next refresh, which reads the rows that it pushed; another master never does.
    """

    name: ClassVar[str] = "ignore"
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
        return Resolution(decision=Decision.IGNORE, reason="the call is dropped")
