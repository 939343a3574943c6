"""From the conflicts of one row and the rules of its table to what is written.

Oracle's rule: methods are tried in ascending sequence until one decides, and
every conflict of the row must be settled, or none is and the transaction fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from masters import resolution
from masters.conflict import Conflict, Decision, Kind, Resolution
from masters.errors import RuleError


class Take(StrEnum):
    """Where the value of a column comes from."""

    NEW = "new"
    CURRENT = "current"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explicit:
    """A value that a method computed."""

    value: object


Source = Take | Explicit


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
            columns: those that the rule decides, as in `Conflict.columns`.

        Raises:
            RuleError: the rule has no subject, or its method refuses it.
        """
        subject = (self.column_group is not None, self.constraint is not None)
        if subject != (self.kind is Kind.UPDATE, self.kind is Kind.UNIQUENESS):
            raise RuleError(
                "An update rule names a column group, a uniqueness rule a constraint, "
                "a delete rule neither.",
                rule=self,
            )
        return resolution.build(self.method, self.kind, self.parameters, columns)

    @property
    def reference(self) -> str:
        """Its column group or constraint; empty for delete conflicts."""
        return self.column_group or self.constraint or ""

    @property
    def compares_rows(self) -> bool:
        """Whether its method decides uniqueness conflicts by any column of the rows."""
        method = resolution.METHODS.get(self.method)
        return bool(getattr(method, "compares_rows", False))

    def covers(self, conflict: Conflict) -> bool:
        """Whether the rule is for this conflict."""
        return (self.kind, self.column_group, self.constraint) == (
            conflict.kind,
            conflict.column_group if conflict.kind is Kind.UPDATE else None,
            conflict.constraint if conflict.kind is Kind.UNIQUENESS else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A rule that was tried and left the conflict undecided, and what it said."""

    rule: Rule
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolutionRecord:
    """One settled conflict: inputs, rule and result."""

    conflict: Conflict
    rule: Rule
    resolution: Resolution
    #: the rules before it in sequence, which did not decide
    passed: tuple[Attempt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unresolved:
    """One conflict that no rule settled."""

    conflict: Conflict
    #: empty when the column group, constraint or table has no rules
    attempts: tuple[Attempt, ...] = ()

    @property
    def reason(self) -> str:
        """What was tried and what each method said, in one line."""
        if not self.attempts:
            return "no rule"
        return "; ".join(
            f"{tried.rule.method}: {tried.reason}" for tried in self.attempts
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RowResolution:
    """What becomes of one row that is in conflict."""

    #: for each column in conflict; empty when the row is ignored or unresolved
    columns: Mapping[str, Source] = field(default_factory=dict)
    #: the call is dropped: nothing of it is written in this row
    ignored: bool = False
    #: the master is the origin of the row, written or left alone, so that everyone
    #: receives it, also the site where the change was made
    origin_changed: bool = False
    #: every conflict that was settled, in the order given, also of an unresolved row
    records: tuple[ResolutionRecord, ...] = ()
    #: every conflict that was not
    unresolved: tuple[Unresolved, ...] = ()

    @property
    def resolved(self) -> bool:
        """Whether all conflicts were settled."""
        return not self.unresolved


def resolve(
    conflicts: Sequence[Conflict],
    rules: Sequence[Rule],
    failed: Sequence[Attempt] = (),
) -> RowResolution:
    """Settle all conflicts of one row, or none. Touches no database.

    A rule that cannot be used (its routine is not installed here) counts as
    undecided, with the reason.

    Parameters:
        conflicts: of one row of one deferred call.
        rules: of the table; their order does not matter, the sequence does.
        failed: rules whose answer for this row could not be followed; they count
            as undecided.
    """
    ordered = sorted(rules, key=lambda rule: (rule.sequence_no, rule.method))
    outcomes = [_settle(conflict, ordered, failed) for conflict in conflicts]
    records = tuple(one for one in outcomes if isinstance(one, ResolutionRecord))
    unresolved = tuple(one for one in outcomes if isinstance(one, Unresolved))
    if unresolved:
        return RowResolution(records=records, unresolved=unresolved)
    if any(_drops_row(record) for record in records):
        return RowResolution(
            ignored=True, origin_changed=_restores(records), records=records
        )
    return RowResolution(
        columns=_columns(records),
        origin_changed=any(
            record.resolution.decision is Decision.SITE_WINS_ORIGIN_CHANGED
            for record in records
        ),
        records=records,
    )


def _settle(
    conflict: Conflict, rules: Sequence[Rule], failed: Sequence[Attempt]
) -> ResolutionRecord | Unresolved:
    """Try the rules of one conflict until one decides."""
    passed: list[Attempt] = []
    for rule in rules:
        if not rule.covers(conflict):
            continue
        if (before := next((f for f in failed if f.rule == rule), None)) is not None:
            passed.append(before)
            continue
        answer = _ask(rule, conflict)
        if answer.decision is not Decision.UNDECIDED:
            return ResolutionRecord(
                conflict=conflict, rule=rule, resolution=answer, passed=tuple(passed)
            )
        passed.append(Attempt(rule=rule, reason=answer.reason))
    return Unresolved(conflict=conflict, attempts=tuple(passed))


def _ask(rule: Rule, conflict: Conflict) -> Resolution:
    try:
        method = rule.build(_decided_columns(rule, conflict))
    except RuleError as error:
        return Resolution(decision=Decision.UNDECIDED, reason=error.message)
    return method(conflict)


def _decided_columns(rule: Rule, conflict: Conflict) -> Sequence[str]:
    """Those of the conflict, or of the row for a method that compares whole rows."""
    if conflict.kind is Kind.UNIQUENESS and rule.compares_rows:
        return tuple(conflict.new or conflict.columns)
    return conflict.columns


def _drops_row(record: ResolutionRecord) -> bool:
    """A master that wins more than a column group keeps its row as a whole."""
    decision = record.resolution.decision
    return decision is Decision.IGNORE or (
        decision is Decision.MASTER_WINS and record.conflict.kind is not Kind.UPDATE
    )


def _restores(records: Sequence[ResolutionRecord]) -> bool:
    """A master that wins a delete conflict gives its row back to the site."""
    return any(
        record.conflict.kind is Kind.DELETE
        and record.resolution.decision is Decision.MASTER_WINS
        for record in records
    )


def _columns(records: Sequence[ResolutionRecord]) -> dict[str, Source]:
    """Column groups first; on top of them only values that another method computed."""
    columns: dict[str, Source] = {}
    groups_first = sorted(
        records, key=lambda record: record.conflict.kind is not Kind.UPDATE
    )
    for record in groups_first:
        for name, source in _sources(record):
            if isinstance(source, Explicit) or name not in columns:
                columns[name] = source
    return columns


def _sources(record: ResolutionRecord) -> Iterator[tuple[str, Source]]:
    answer = record.resolution
    whole = Take.NEW if answer.decision.site_wins else Take.CURRENT
    for name in record.conflict.columns:
        if name in answer.values:
            yield name, Explicit(value=answer.values[name])
        else:
            yield name, whole
