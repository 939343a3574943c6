"""Checking rules against their table: its names exist, and methods fit its types."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from masters.errors import (
    BadRulebook,
    RuleError,
    UnknownColumn,
    UnknownColumnGroup,
    UnknownConstraint,
    WrongColumnType,
)
from masters.resolution import Method
from masters.resolution.conflict import Kind
from masters.rules.rule import Rule
from masters.rules.table_rules import Comparison, rule_of
from sites.tables.table import Table

_SIZED_TEXT = re.compile(r"character(?: varying)?\((\d+)\)")
_APPENDING = ("append_sequence", "append_site_name")


def checked(rule: Rule, table: Table, groups: Mapping[str, Sequence[str]]) -> Rule:
    """A rule that the table and its method accept, with the length of its column.

    Raises:
        UnknownColumnGroup, UnknownConstraint.
        WrongColumnType: the method cannot use a column of that type.
        RuleError: the method refuses it.
    """
    columns = _decided(rule, table, groups)
    if rule.method in _APPENDING and "length" not in rule.parameters:
        rule = rule_of(
            rule.kind,
            rule.reference,
            rule.sequence_no,
            rule.method,
            {**rule.parameters, **_length(table, rule.parameters.get("column"))},
        )
    # Of conflicts in columns, a method sees no others: `masters.apply.resolve`.
    whole = rule.compares_rows and rule.kind is Kind.UNIQUENESS
    method = rule.build(table.names if whole else columns)
    _require_types(method, table)
    return rule


def _require_types(method: Method, table: Table) -> None:
    """Refuse columns whose types the method cannot decide by."""
    for name, takes in method.takes().items():
        column = table.column(name)
        if not takes.holds(column.recorded):
            raise WrongColumnType(
                f"{method.name}: column {name} of {table.qualified} is {column.type}; "
                f"it must be {takes.value}.",
                method=method.name,
                column=name,
                type=column.type,
            )


def require_columns(table: Table, columns: Sequence[str]) -> None:
    """Refuse names of columns that a table does not have.

    Raises:
        UnknownColumn.
    """
    if unknown := [name for name in columns if name not in table.names]:
        raise UnknownColumn(
            f"Table {table.qualified} has no column {', '.join(map(repr, unknown))}.",
            columns=unknown,
        )


def checked_comparison(table: Table, found: Comparison) -> Comparison:
    """A comparison that the table allows, unchanged.

    Raises:
        UnknownColumn.
        RuleError: old values of the key and the row version must be sent.
    """
    version = [found.row_version] if found.row_version is not None else []
    unsent = {*found.not_sent_at_update, *found.not_sent_at_delete}
    require_columns(
        table, [*version, *found.not_at_update, *found.not_at_delete, *sorted(unsent)]
    )
    if needed := unsent & {*table.key, *version}:
        raise RuleError(
            f"Old values of {', '.join(sorted(needed))} must be sent, because they "
            "are the key or the row version."
        )
    return found


def check_groups(table: Table, groups: Mapping[str, Sequence[str]]) -> None:
    """Refuse column groups that share a column, or name one that does not exist.

    Raises:
        BadRulebook, UnknownColumn.
    """
    members = [column for columns in groups.values() for column in columns]
    require_columns(table, members)
    if len(set(members)) < len(members):
        raise BadRulebook(
            f"{table.qualified}: a column can be in only one column group."
        )


def _decided(
    rule: Rule, table: Table, groups: Mapping[str, Sequence[str]]
) -> Sequence[str]:
    if rule.kind is Kind.DELETE:
        return table.names
    if rule.kind is Kind.UPDATE:
        if rule.reference not in groups:
            raise UnknownColumnGroup(
                f"Table {table.qualified} has no column group {rule.reference!r}.",
                table=str(table.qualified),
                group=rule.reference,
            )
        return groups[rule.reference]
    for unique in table.uniques:
        if unique.name == rule.reference:
            return unique.columns
    known = [unique.name for unique in table.uniques]
    raise UnknownConstraint(
        f"Table {table.qualified} has no unique constraint {rule.reference!r}; "
        f"it has: {', '.join(known) or 'none'}.",
        table=str(table.qualified),
        known=known,
    )


def _length(table: Table, column: object) -> dict[str, int]:
    if column not in table.names:
        return {}
    sized = _SIZED_TEXT.fullmatch(table.column(str(column)).type)
    return {"length": int(sized[1])} if sized else {}
