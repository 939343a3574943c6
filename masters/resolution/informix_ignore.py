"""Informix: ignore."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from masters.resolution.conflict import Conflict, Decision, Kind, Resolution
from masters.resolution.method import check_names
from masters.resolution.scope import Scope, lost, scope_of
from masters.resolution.takes import Takes


@dataclass(frozen=True, slots=True, kw_only=True)
class InformixIgnore:
    """Informix, --conflict=ignore: what can be executed is, the rest is dropped.

    The row is there: an update or delete is applied whatever the master changed, an
    insert is dropped. The row is gone: an update or delete is dropped. Give it to
    the primary key; Informix has no rule for another constraint.

    Parameters:
        scope: row when not given; by transaction, what would be dropped rejects the
            whole transaction, which waits in the error queue.
    """

    name: ClassVar[str] = "informix_ignore"
    kinds: ClassVar[frozenset[Kind]] = frozenset(Kind)
    #: of which one stays, and so does what refers to it
    versions_of_one_row: ClassVar[bool] = True

    scope: Scope

    @classmethod
    def build(cls, parameters: Mapping[str, object], columns: Sequence[str]) -> Self:
        check_names(cls.name, parameters, optional=["scope"])
        return cls(scope=scope_of(cls.name, parameters))

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
