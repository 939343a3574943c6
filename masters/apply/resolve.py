"""Asking the rules of a table about the conflicts of one row.

Oracle's rule: methods are tried in ascending sequence until one decides. Every conflict
of the row must be settled; otherwise none is, and the transaction fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from masters.errors import RuleError
from masters.resolution import Method
from masters.resolution.conflict import (
    Conflict,
    Decision,
    Kind,
    Resolution,
    Subject,
    undecided,
)
from masters.resolution.extremes import Extreme
from masters.rules.rule import Rule


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
class Attempt:
    """A rule that was tried and left the conflict undecided, with its reason."""

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
        """The methods tried and the reason each gave, in one line."""
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
    #: the master is now the origin of the row; if its row stays as it is, all snapshots
    #: receive it again, also that of the site where the change was made
    origin_changed: bool = False
    #: every conflict that was settled, in the order given, also of an unresolved row
    records: tuple[ResolutionRecord, ...] = ()
    #: every conflict that was not settled
    unresolved: tuple[Unresolved, ...] = ()

    @property
    def resolved(self) -> bool:
        """Whether all conflicts were settled."""
        return not self.unresolved

    @property
    def reason(self) -> str:
        """Why the row could not be settled, for the error queue."""
        return "; ".join(
            f"{one.conflict.kind.value} conflict{_of(one.conflict)}: {one.reason}"
            for one in self.unresolved
        )


Columns: TypeAlias = tuple[str, ...]

#: A rule with its method, or with the reason why it cannot be used.
Asked: TypeAlias = tuple[Rule, Method | str]


class Resolver:
    """The rules of one table, ready to be asked: in sequence, each method built once.

    A rule that cannot be used (its routine is not installed here) counts as
    undecided, with the reason. Touches no database.

    Parameters:
        rules: of the table; their order does not matter, the sequence does.
        row: the columns of a whole row, for methods that compare rows.
    """

    def __init__(self, rules: Iterable[Rule], row: Sequence[str]) -> None:
        self._row = tuple(row)
        self._sequences: dict[Subject, list[Rule]] = {}
        for rule in sorted(rules, key=lambda rule: (rule.sequence_no, rule.method)):
            self._sequences.setdefault(rule.subject, []).append(rule)
        self._built: dict[tuple[Subject, Columns], list[Asked]] = {}

    def reads(self, subjects: Mapping[Subject, Columns]) -> Columns:
        """The columns whose values the rules look at, in the order of the row.

        Parameters:
            subjects: the subjects to settle, with the columns of each.
        """
        wanted: set[str] = set()
        for subject, columns in subjects.items():
            for _, method in self._methods(subject, columns):
                read = method.reads() if not isinstance(method, str) else frozenset()
                wanted |= set(self._row) if read is None else read
        return tuple(name for name in self._row if name in wanted)

    def ordered(self, subjects: Mapping[Subject, Columns]) -> frozenset[str]:
        """The columns of which rules only ask which side's value is higher.

        Parameters:
            subjects: as for `reads`.
        """
        ordered, read = set[str](), set[str]()
        for subject, columns in subjects.items():
            for _, method in self._methods(subject, columns):
                if isinstance(method, Extreme):
                    ordered.add(method.column)
                elif not isinstance(method, str):
                    names = method.reads()
                    read |= set(self._row) if names is None else names
        return frozenset(ordered - read)

    def resolve(
        self, conflicts: Sequence[Conflict], failed: Sequence[Attempt] = ()
    ) -> RowResolution:
        """Settle all conflicts of one row, or none.

        Parameters:
            conflicts: of one row of one deferred call.
            failed: rules whose answer for this row could not be followed; they count
                as undecided.
        """
        settled: list[ResolutionRecord] = []
        unresolved: list[Unresolved] = []
        for conflict in conflicts:
            outcome = self._settle(conflict, failed)
            if isinstance(outcome, ResolutionRecord):
                settled.append(outcome)
            else:
                unresolved.append(outcome)
        if unresolved:
            return RowResolution(records=tuple(settled), unresolved=tuple(unresolved))
        return _row(tuple(settled))

    def _settle(
        self, conflict: Conflict, failed: Sequence[Attempt]
    ) -> ResolutionRecord | Unresolved:
        """Try the rules of one conflict until one decides."""
        passed: list[Attempt] = []
        for rule, method in self._methods(conflict.subject, conflict.columns):
            before = next((f for f in failed if f.rule == rule), None)
            if before is not None:
                passed.append(before)
                continue
            answer = undecided(method) if isinstance(method, str) else method(conflict)
            if answer.decision not in (Decision.UNDECIDED, Decision.REJECT):
                return ResolutionRecord(
                    conflict=conflict,
                    rule=rule,
                    resolution=answer,
                    passed=tuple(passed),
                )
            passed.append(Attempt(rule=rule, reason=answer.reason))
            if answer.decision is Decision.REJECT:
                break
        return Unresolved(conflict=conflict, attempts=tuple(passed))

    def _methods(self, subject: Subject, columns: Columns) -> list[Asked]:
        """The rules for a subject in sequence, each with its method, or why not."""
        found = self._built.get((subject, columns))
        if found is None:
            rules = self._sequences.get(subject, ())
            found = [(rule, self._method(rule, columns)) for rule in rules]
            self._built[subject, columns] = found
        return found

    def _method(self, rule: Rule, columns: Columns) -> Method | str:
        whole = rule.kind is Kind.UNIQUENESS and rule.compares_rows
        try:
            return rule.build(self._row if whole else columns)
        except RuleError as error:
            return error.message


def _row(records: tuple[ResolutionRecord, ...]) -> RowResolution:
    """Combine the answers to all conflicts of a row."""
    decisions = {record.resolution.decision for record in records}
    if any(map(_drops_row, records)):
        return RowResolution(
            ignored=True, origin_changed=_restores(records), records=records
        )
    return RowResolution(
        columns=_columns(records),
        origin_changed=Decision.SITE_WINS_ORIGIN_CHANGED in decisions,
        records=records,
    )


def _of(conflict: Conflict) -> str:
    if conflict.column_group:
        return f" in column group {conflict.column_group}"
    if conflict.kind is Kind.UNIQUENESS:
        return f" of {conflict.constraint}"
    if conflict.takes_along:
        return f", which would also affect {', '.join(conflict.takes_along)}"
    if conflict.changes:
        return (
            ", because the row differs in columns that the change of its key leaves "
            "alone"
        )
    return ""


def _drops_row(record: ResolutionRecord) -> bool:
    """Whether the call is dropped for the whole row.

    A master that wins more than a column group keeps its row as a whole.
    """
    decision = record.resolution.decision
    return decision is Decision.IGNORE or (
        decision is Decision.MASTER_WINS and record.conflict.kind is not Kind.UPDATE
    )


def _restores(records: Sequence[ResolutionRecord]) -> bool:
    """Whether the master won a delete conflict: the site then gets its row back."""
    return any(
        record.conflict.kind is Kind.DELETE
        and record.resolution.decision is Decision.MASTER_WINS
        for record in records
    )


def _columns(records: Sequence[ResolutionRecord]) -> dict[str, Source]:
    """Where the value of each column in conflict comes from.

    Column groups come first. Another conflict replaces their answer only with a value
    that its method computed.
    """
    columns: dict[str, Source] = {}
    groups_first = sorted(
        records, key=lambda record: record.conflict.kind is not Kind.UPDATE
    )
    for record in groups_first:
        answer = record.resolution
        whole = Take.NEW if answer.decision.site_wins else Take.CURRENT
        for name in record.conflict.changes or record.conflict.columns:
            columns.setdefault(name, whole)
        for name, value in answer.values.items():
            columns[name] = Explicit(value=value)
    return columns
