"""The newest timestamp of a transaction, for rules that judge it as a whole.

Informix's transaction scope compares this timestamp with each row in conflict, instead
of the timestamp of the row alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, func, select

from masters.resolution.order import moment
from masters.resolution.scope import Scope
from masters.rules.table_rules import TableRules
from sites.writing.staged import UPDATES, Staged


def newest(
    connection: Connection, unit: int, tables: Sequence[tuple[Staged, TableRules]]
) -> object:
    """The newest value that a transaction wrote to columns that such rules name.

    None if no rule asks. Timestamps with and without time zone cannot be compared: if
    tables differ in that, the first one counts.
    """
    found: object = None
    for staged, rules in tables:
        for column in _columns(staged, rules):
            value = connection.scalar(
                select(func.max(staged.new(column))).where(
                    staged.source.c.unit == unit, staged.kind("I", *UPDATES, "R")
                )
            )
            found = _later(found, value)
    return found


def _columns(staged: Staged, rules: TableRules) -> list[str]:
    named = {
        str(rule.parameters.get("column"))
        for rule in rules.rules
        if rule.parameters.get("scope") == Scope.TRANSACTION
    }
    return [name for name in staged.columns if name in named]


def _later(found: object, value: object) -> object:
    if found is None or value is None:
        return value if found is None else found
    try:
        return value if moment(value) > moment(found) else found
    except TypeError:
        return found
