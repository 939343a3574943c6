"""The comparison, column groups and rules of a table, as the catalog has them.

Rules name columns. If columns exchange names at the master, a rule would decide
conflicts of another column than it was made for; so each version of the rules keeps
the numbers that the columns had when somebody named them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy import Connection, Row, and_, func, or_, select

from masters.catalog import column_group, comparison, resolution_rule, rules_version
from masters.errors import RulesMoved
from masters.resolution.conflict import Kind
from masters.rules.rule import Rule
from sites import QualifiedName
from sites.sessions.prepared import Prepared
from sites.tables.table import Table, find_table
from sites.writing.staged import Staged, others

#: By a table's oid as text, the numbers of columns by name.
Numbers: TypeAlias = Mapping[str, Mapping[str, int]]

#: For each table, names of columns that an operator names now.
Said: TypeAlias = Mapping[QualifiedName, Collection[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Which old values are compared with the master's row to find conflicts."""

    #: a column that gets a new value at each change, compared instead of all others
    row_version: str | None = None
    not_at_update: tuple[str, ...] = ()
    not_at_delete: tuple[str, ...] = ()
    #: columns whose old values sites do not send, so that they are not compared
    not_sent_at_update: tuple[str, ...] = ()
    not_sent_at_delete: tuple[str, ...] = ()

    def at_update(self, columns: Sequence[str], carried: Sequence[str]) -> list[str]:
        """The columns whose old values tell whether a group was changed."""
        if self.row_version in carried:
            return [str(self.row_version)]
        left_out = {*self.not_at_update, *self.not_sent_at_update}
        return [name for name in columns if name not in left_out]

    def at_delete(self, columns: Sequence[str], carried: Sequence[str]) -> list[str]:
        """The columns whose old values tell whether a row to delete was changed."""
        if self.row_version in carried:
            return [str(self.row_version)]
        left_out = {*self.not_at_delete, *self.not_sent_at_delete}
        return [name for name in columns if name not in left_out]

    @property
    def all_sent(self) -> bool:
        """Whether all old values are sent."""
        return not (self.not_sent_at_update or self.not_sent_at_delete)


#: Every column, as in Oracle.
EVERYTHING = Comparison()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRules:
    """The column groups, rules and comparison of one table."""

    table: QualifiedName
    #: name -> columns; a column is in at most one
    groups: Mapping[str, tuple[str, ...]]
    rules: tuple[Rule, ...]
    #: number of the last change of any rule of this master, 0 before the first
    version: int = 0
    comparison: Comparison = EVERYTHING
    #: a rule decides by when the master deleted a row
    ask_when_deleted: bool = False

    @property
    def names(self) -> set[str]:
        """Names in the rules that may be those of columns."""
        compared = self.comparison
        found = {
            *(name for members in self.groups.values() for name in members),
            *compared.not_at_update,
            *compared.not_at_delete,
            *compared.not_sent_at_update,
            *compared.not_sent_at_delete,
        }
        if compared.row_version is not None:
            found.add(compared.row_version)
        for rule in self.rules:
            for value in rule.parameters.values():
                listed = value if isinstance(value, list) else [value]
                found.update(one for one in listed if isinstance(one, str))
        return found

    def partition(
        self, columns: Sequence[str]
    ) -> list[tuple[str | None, tuple[str, ...]]]:
        """Divide columns into their groups; the rest is the shadow group, None.

        Oracle: every column is in exactly one column group, and the shadow
        group has no methods. A row version is in no group: it changes with the others.
        """
        columns = [name for name in columns if name != self.comparison.row_version]
        parts: list[tuple[str | None, tuple[str, ...]]] = [
            (name, tuple(c for c in members if c in columns))
            for name, members in self.groups.items()
        ]
        grouped = {column for members in self.groups.values() for column in members}
        parts.append((None, tuple(c for c in columns if c not in grouped)))
        return [part for part in parts if part[1]]


#: The number of the last change of any rule of a master, as a column `version`.
LAST_VERSION = (
    select(func.coalesce(func.max(rules_version.c.id), 0))
    .scalar_subquery()
    .label("version")
)


_LAST_COLUMNS = Prepared(
    select(rules_version.c.columns).order_by(rules_version.c.id.desc()).limit(1)
)

_COMPARED = (
    comparison.c.row_version,
    comparison.c.not_at_update,
    comparison.c.not_at_delete,
    comparison.c.not_sent_at_update,
    comparison.c.not_sent_at_delete,
)
_SAME_TABLE = and_(
    column_group.c.table_schema == comparison.c.table_schema,
    column_group.c.table_name == comparison.c.table_name,
)


def _is_of(catalog: sa.Table, schema: Any, name: Any) -> sa.ColumnElement[bool]:
    return and_(catalog.c.table_schema == schema, catalog.c.table_name == name)


def _its(catalog: sa.Table) -> sa.ColumnElement[bool]:
    return _is_of(
        catalog,
        sa.bindparam("its_schema", type_=sa.Text),
        sa.bindparam("its_name", type_=sa.Text),
    )


_GROUPS = Prepared(
    select(column_group.c.name, column_group.c.columns, *_COMPARED)
    .select_from(column_group.outerjoin(comparison, _SAME_TABLE, full=True))
    .where(or_(_its(column_group), _its(comparison)))
    .order_by(column_group.c.id)
)
_RULES = Prepared(
    select(resolution_rule, LAST_VERSION)
    .where(_its(resolution_rule))
    .order_by("sequence_no")
)


def ruled(connection: Connection) -> list[QualifiedName]:
    """All tables that have rules, groups or comparisons in the catalog, by name."""
    catalogs = (column_group, resolution_rule, comparison)
    each = (select(one.c.table_schema, one.c.table_name) for one in catalogs)
    rows = connection.execute(sa.union(*each)).all()
    return sorted(QualifiedName(*row) for row in rows)


def load(connection: Connection, table: QualifiedName) -> TableRules:
    """The rules of a table as the catalog holds them."""
    its = {"its_schema": table.schema, "its_name": table.name}
    found = _GROUPS.run(connection, **its).all()
    rules = _RULES.run(connection, **its).all()
    known = tuple(
        rule_of(
            Kind(row.kind), row.reference, row.sequence_no, row.method, row.parameters
        )
        for row in rules
    )
    return TableRules(
        table=table,
        groups={row.name: tuple(row.columns) for row in found if row.name},
        rules=known,
        version=rules[0].version if rules else 0,
        comparison=_comparison(found[0]) if found else EVERYTHING,
        ask_when_deleted=any(rule.asks_when_deleted for rule in known),
    )


def _comparison(row: Row[*tuple[Any, ...]]) -> Comparison:
    return Comparison(
        row_version=row.row_version,
        not_at_update=tuple(row.not_at_update or ()),
        not_at_delete=tuple(row.not_at_delete or ()),
        not_sent_at_update=tuple(row.not_sent_at_update or ()),
        not_sent_at_delete=tuple(row.not_sent_at_delete or ()),
    )


def rule_of(
    kind: Kind,
    reference: str,
    sequence_no: int,
    method: str,
    parameters: Mapping[str, object],
) -> Rule:
    """A rule made of the values that the catalog, or a file, has for it."""
    return Rule(
        kind=kind,
        column_group=reference if kind is Kind.UPDATE else None,
        constraint=reference if kind is Kind.UNIQUENESS else None,
        sequence_no=sequence_no,
        method=method,
        # A parameter that is null counts as not given: TOML has no null.
        parameters={n: value for n, value in parameters.items() if value is not None},
    )


def of(catalog: sa.Table, table: QualifiedName) -> sa.ColumnElement[bool]:
    """The rows of a catalog table that are about this table of the user's."""
    return _is_of(catalog, table.schema, table.name)


def named(table: QualifiedName) -> dict[str, str]:
    """The columns by which catalog tables name a table of the user's."""
    return {"table_schema": table.schema, "table_name": table.name}


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
            for name in rules.names
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
    return others({n: known[n] for n in rules.names if n in known}, table)


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
    return _LAST_COLUMNS.run(connection).scalar() or {}
