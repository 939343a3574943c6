"""The columns that rules were made for, by their numbers.

Rules name columns. If columns exchange names at the master, a rule would decide
conflicts of another column than it was made for; so each version of the rules keeps
the numbers that the columns had when somebody named them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeAlias

from sqlalchemy import Connection, select

from masters.catalog import rules_version
from masters.errors import RulesMoved
from masters.rules.table_rules import TableRules, load
from sites import QualifiedName
from sites.sessions.prepared import planned_once
from sites.tables.table import Table, find_table
from sites.writing.same_columns import others
from sites.writing.staged import Staged

#: By a table's oid as text, the numbers of columns by name.
Numbers: TypeAlias = Mapping[str, Mapping[str, int]]

#: For each table, names of columns that an operator names now.
Said: TypeAlias = Mapping[QualifiedName, Collection[str]]

_LAST = planned_once(
    select(rules_version.c.columns).order_by(rules_version.c.id.desc()).limit(1)
)


def named(rules: TableRules) -> set[str]:
    """Names in rules that may be those of columns."""
    compared = rules.comparison
    found = {
        *(name for members in rules.groups.values() for name in members),
        *compared.not_at_update,
        *compared.not_at_delete,
        *compared.not_sent_at_update,
        *compared.not_sent_at_delete,
    }
    if compared.row_version is not None:
        found.add(compared.row_version)
    for rule in rules.rules:
        for value in rule.parameters.values():
            listed = value if isinstance(value, list) else [value]
            found.update(one for one in listed if isinstance(one, str))
    return found


def numbers(
    connection: Connection, every: Collection[TableRules], said: Said
) -> Numbers:
    """The numbers of the columns that rules name, for a new version of the rules.

    A column that nobody named now keeps the number that it had.

    Parameters:
        every: the rules from now on.
    """
    before = _noted(connection)
    found: dict[str, dict[str, int]] = {}
    for rules in every:
        table = find_table(connection, rules.table)
        if table is None:  # rules may outlive it
            continue
        now = {column.name: column.number for column in table.columns}
        kept = before.get(str(table.oid), {})
        again = said.get(rules.table, ())
        found[str(table.oid)] = {
            name: now[name] if name in again or name not in kept else kept[name]
            for name in named(rules)
            if name in now or name in kept
        }
    return found


def moved(
    connection: Connection, rules: TableRules, table: Table
) -> dict[str, str | None]:
    """Columns that are not those their rules were made for.

    Returns:
        By name, the name that the intended column has now; None if it is gone.
    """
    known = _noted(connection).get(str(table.oid), {})
    names = named(rules)
    return others({n: number for n, number in known.items() if n in names}, table)


def known(connection: Connection, staged: Staged, now: int) -> TableRules:
    """The rules of a staged table, read again only if any rule has changed.

    Parameters:
        now: the current version of the rules.

    Raises:
        RulesMoved: they were made for other columns.
    """
    return staged.keep(("rules", now), lambda: _read(connection, staged.table))


def _read(connection: Connection, table: Table) -> TableRules:
    rules = load(connection, table.qualified)
    for name, called in moved(connection, rules, table).items():
        raise RulesMoved(message(table, name, called), column=name, called=called)
    return rules


def message(table: Table, name: str, called: str | None) -> str:
    """What is wrong with a column that rules name."""
    now = "gone" if called is None else f"called {called}"
    return (
        f"Column {name} of {table.qualified} is not the column that its rules were "
        f"made for: that one is {now}."
    )


def _noted(connection: Connection) -> Numbers:
    return connection.execute(_LAST).scalar() or {}
