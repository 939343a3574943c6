"""Informix's conflict rule ignore: calls that cannot be applied are dropped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from masters.resolution.conflict import Conflict, Decision, Kind, Resolution
from masters.resolution.method import check_names, chosen
from masters.resolution.scope import Scope, lost
from masters.resolution.takes import Takes


@dataclass(frozen=True, slots=True, kw_only=True)
class InformixIgnore:
    """Informix, --conflict=ignore: a call is applied if it can be, and else dropped.

    If the row is there, an update or delete is applied whatever the master changed, and
    an insert is dropped. If the row is gone, an update or delete is dropped. Give the
    rule to the primary key; Informix has none for another constraint.

    Parameters:
        scope: row if not given. With transaction, a call that would be dropped
            rejects the whole transaction, which waits in the error queue.
    """

    name: ClassVar[str] = "informix_ignore"
    kinds: ClassVar[frozenset[Kind]] = frozenset(Kind)
    #: one version stays, and rows that refer to it stay, too
    versions_of_one_row: ClassVar[bool] = True

    scope: Scope

    @classmethod
    def build(cls, parameters: Mapping[str, object], columns: Sequence[str]) -> Self:
        check_names(cls.name, parameters, optional=["scope"])
        return cls(scope=chosen(cls.name, parameters, "scope", Scope.ROW))

    def reads(self) -> frozenset[str]:
        return frozenset()

    def takes(self) -> Mapping[str, Takes]:
        return {}

    def __call__(self, conflict: Conflict) -> Resolution:
        if conflict.kind is Kind.UNIQUENESS:
            return lost(conflict, self.scope, "the row is there")
        if conflict.kind is Kind.DELETE and conflict.current is None:
            return lost(conflict, self.scope, "the row is gone")
        return Resolution(decision=Decision.SITE_WINS, reason="the call can be applied")
