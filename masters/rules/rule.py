"""One rule of a master: the method, its place in the sequence, and its subject."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from masters import resolution
from masters.errors import RuleError
from masters.resolution.conflict import Conflict, Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One resolution method in the sequence of a column group or a constraint."""

    kind: Kind
    #: of an update rule
    column_group: str | None = None
    #: of a uniqueness rule
    constraint: str | None = None
    sequence_no: int
    #: a name in `masters.resolution.METHODS`
    method: str
    parameters: Mapping[str, object] = field(default_factory=dict)

    def build(self, columns: Sequence[str]) -> resolution.Method:
        """Check the rule and build its method, when it is added and when it is used.

        Parameters:
            columns: the columns that the rule decides, as in `Conflict.columns`.

        Raises:
            RuleError: the rule has no subject, or its method refuses it.
        """
        subject = (self.column_group is not None, self.constraint is not None)
        if subject != (self.kind is Kind.UPDATE, self.kind is Kind.UNIQUENESS):
            raise RuleError(
                "An update rule must name a column group, a uniqueness rule a "
                "constraint, and a delete rule neither.",
                rule=self,
            )
        return resolution.build(self.method, self.kind, self.parameters, columns)

    @property
    def reference(self) -> str:
        """The column group or constraint; empty for delete conflicts."""
        return self.column_group or self.constraint or ""

    @property
    def compares_rows(self) -> bool:
        """Whether its method decides uniqueness conflicts by any column of the rows."""
        method = resolution.METHODS.get(self.method)
        return bool(getattr(method, "compares_rows", False))

    @property
    def versions_of_one_row(self) -> bool:
        """Whether its method takes rows of one key for versions of one row."""
        method = resolution.METHODS.get(self.method)
        return bool(getattr(method, "versions_of_one_row", False))

    @property
    def asks_when_deleted(self) -> bool:
        """Whether its method decides a delete conflict by when the row was deleted."""
        method = resolution.METHODS.get(self.method)
        return self.kind is Kind.DELETE and bool(
            getattr(method, "asks_when_deleted", False)
        )

    @property
    def subject(self) -> tuple[Kind, str | None]:
        """The subject of the conflicts that the rule is for, see `Conflict.subject`."""
        return self.kind, self.column_group or self.constraint

    def covers(self, conflict: Conflict) -> bool:
        """Whether the rule is for this conflict."""
        return self.subject == conflict.subject
