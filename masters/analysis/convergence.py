"""Checking which methods keep all masters equal, by the table of Oracle's manuals.

Snapshots take over the decisions of their master at the next refresh, so that one
master with any number of snapshots always converges. Several masters each decide for
themselves, and may decide differently.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from masters.resolution.conflict import Kind
from masters.rules.rule import Rule

if TYPE_CHECKING:
    from masters.rules.table_rules import TableRules
    from sites import QualifiedName

#: Methods that always converge; latest timestamp only if clocks never go back and
#: another rule decides equal stamps.
_ALWAYS = {"additive", "latest_timestamp"}

#: Methods for one master or two, with the condition under which more converge; no rule
#: can check it.
_TWO_MASTERS = {
    "minimum": "unless every change lowers the column",
    "maximum": "unless every change raises the column",
    "earliest_timestamp": "because a later change always loses",
    "priority_group": "unless every change raises the priority",
}

#: Methods that, as in Oracle, leave equal values undecided unless `tie` is given.
_WITH_TIE = {"minimum", "maximum", "earliest_timestamp", "latest_timestamp"}

#: Methods that may follow a latest timestamp and then order only rows of equal stamps.
#: They compare values that travel with the row, so all masters rank two rows alike.
_BACKUPS = {*_WITH_TIE, "priority_group", "site_priority"}

_WHY = {
    "append_sequence": "each of {masters} masters appends a number of its own",
    "append_site_name": "each of {masters} masters renames another row",
    "average": "the average of more than two values depends on their order",
    "cascade": "a row that only one of {masters} masters has may be deleted only there",
    "custom": "a custom routine may decide anything at several "
    "masters; masters.analysis.testing tests it",
    "ignore": "a change that is dropped at one of {masters} masters stays at the "
    "others",
    "restore": "the restored row is sent to snapshots, not to the other masters",
    "informix_always": "each of {masters} masters keeps the change that arrives last",
    "informix_delete_wins": "an insert after the delete brings back a stale row",
    "informix_ignore": "each of {masters} masters keeps the change that arrives last",
}


class Severity(StrEnum):
    """How much a finding of the check matters."""

    #: databases may stay different for ever
    WARNING = "warning"
    #: it converges under a condition that the reason names
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """How many masters a table has, and how many updatable snapshots."""

    masters: int = 1
    snapshots: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One rule that may keep databases different, and why."""

    table: QualifiedName
    rule: Rule
    severity: Severity
    reason: str


def diverges(
    method: str,
    masters: int,
    snapshots: int,
    parameters: Mapping[str, object] | None = None,
) -> str | None:
    """Why databases may stay different for ever by a method; None if they cannot.

    Parameters:
        method: a name in `masters.resolution.METHODS`.
        masters: how many masters the table has.
        snapshots: how many updatable snapshots it has, at all masters together.
        parameters: the parameters of the rule; for some methods they matter.
    """
    if masters <= 1:
        return None
    given = parameters or {}
    if method in _WITH_TIE and given.get("tie") in ("site", "master"):
        return f"each of {masters} masters settles equal values differently"
    if method in _ALWAYS:
        return None
    if method in _TWO_MASTERS:
        condition = _TWO_MASTERS[method]
        return (
            None if masters == 2 else f"{method} suits two masters at most, {condition}"
        )
    if method == "site_priority":
        if masters == 2 and not snapshots:
            return None
        return "site_priority keeps two masters equal only without updatable snapshots"
    if method == "informix_timestamp":
        return _servers_unknown(given)
    why = _WHY.get(
        method, "each of {masters} masters decides {method} for itself alone"
    )
    return why.format(method=method, masters=masters)


def of_rule(rule: Rule, among: Sequence[Rule], where: Topology) -> str | None:
    """Why databases may stay different for ever by one rule; None if they cannot.

    Parameters:
        among: all rules of its table: the rules before it in sequence matter.
    """
    for sequence in _sequences(among):
        if rule in sequence:
            before = sequence[: sequence.index(rule)]
            return None if _orders_equal_stamps(rule, before) else _of_rule(rule, where)
    return _of_rule(rule, where)


def check(
    tables: Iterable[TableRules], topology: Mapping[QualifiedName, Topology]
) -> list[Finding]:
    """Say which tables may diverge, and why; with one master none does.

    Parameters:
        tables: rules by table, as `masters.rules.list_rules` gives them.
        topology: of each table; a table that is not named has one master.
    """
    return [
        Finding(table=table.table, rule=rule, severity=severity, reason=reason)
        for table in tables
        for sequence in _sequences(table.rules)
        for rule, severity, reason in _findings(
            sequence, topology.get(table.table, Topology())
        )
    ]


def _servers_unknown(parameters: Mapping[str, object]) -> str | None:
    """Why masters disagree on equal seconds; None if server numbers decide them.

    Informix numbers its servers and stores with each row which server wrote it.
    """
    missing = [
        name for name in ("servers", "server_column") if not parameters.get(name)
    ]
    if not missing:
        return None
    return f"without {' and '.join(missing)} the masters do not agree on equal seconds"


def _sequences(rules: Sequence[Rule]) -> Iterator[list[Rule]]:
    """The rules of each column group, constraint and table, in sequence."""
    subjects: dict[tuple[str | None, ...], list[Rule]] = {}
    for rule in sorted(rules, key=lambda rule: rule.sequence_no):
        subject = (rule.kind, rule.column_group, rule.constraint)
        subjects.setdefault(subject, []).append(rule)
    yield from subjects.values()


def _findings(
    sequence: Sequence[Rule], where: Topology
) -> Iterator[tuple[Rule, Severity, str]]:
    for place, rule in enumerate(sequence):
        if _orders_equal_stamps(rule, sequence[:place]):
            continue
        if reason := _of_rule(rule, where):
            yield rule, Severity.WARNING, reason
        elif note := _note(rule, where, last=place == len(sequence) - 1):
            yield rule, Severity.NOTE, note


def _of_rule(rule: Rule, where: Topology) -> str | None:
    return diverges(rule.method, where.masters, where.snapshots, rule.parameters)


def _orders_equal_stamps(rule: Rule, before: Sequence[Rule]) -> bool:
    """Whether a rule is the backup of a latest timestamp, and all masters agree."""
    return (
        any(other.method == "latest_timestamp" for other in before)
        and rule.method in _BACKUPS
        and rule.parameters.get("column") is not None
        and rule.parameters.get("tie", "undecided") in (None, "undecided")
    )


def _note(rule: Rule, where: Topology, *, last: bool) -> str | None:
    """The condition under which a rule converges; None if it has none."""
    tie = rule.parameters.get("tie") or "undecided"
    if rule.kind is Kind.UPDATE and rule.method == "latest_timestamp":
        if last and tie == "undecided":
            return (
                "latest_timestamp has no backup: conflicts with equal timestamps "
                "wait in the error queue; add site_priority after it"
            )
        return None
    if where.masters > 1 and rule.method in _TWO_MASTERS:
        return (
            "two masters may diverge if several changes are on their way at once, "
            f"{_TWO_MASTERS[rule.method]}"
        )
    others = where.masters > 2 or (where.masters == 2 and where.snapshots)
    if others and rule.kind is Kind.DELETE and rule.method == "informix_timestamp":
        return (
            "unless a row is deleted and changed in one second: a master does not "
            "know which other site deleted it, and takes its own number"
        )
    return None
