"""Column groups and resolution rules of a master table, kept in its catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row, select

from masters.catalog import column_group, resolution_rule
from masters.conflict import Kind
from masters.errors import RuleExists, UnknownColumn, UnknownColumnGroup, UnknownRule
from masters.resolve import Rule
from sites import QualifiedName, Site, identity, names
from sites.table import Table, describe


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRules:
    """The column groups and rules of one table."""

    table: QualifiedName
    #: name -> columns; a column is in at most one
    groups: Mapping[str, tuple[str, ...]]
    rules: tuple[Rule, ...]

    def partition(
        self, columns: Sequence[str]
    ) -> list[tuple[str | None, tuple[str, ...]]]:
        """Divide columns into their groups; the rest is the shadow group, None.

        Oracle: every column is in exactly one column group, and the shadow
        group has no methods.
        """
        parts: list[tuple[str | None, tuple[str, ...]]] = [
            (name, tuple(c for c in members if c in columns))
            for name, members in self.groups.items()
        ]
        grouped = {column for members in self.groups.values() for column in members}
        parts.append((None, tuple(c for c in columns if c not in grouped)))
        return [part for part in parts if part[1]]


def load(connection: Connection, table: QualifiedName) -> TableRules:
    """The rules of a table as the catalog holds them."""
    groups = connection.execute(
        select(column_group.c.name, column_group.c.columns)
        .where(_of(column_group, table))
        .order_by("id")
    )
    rules = connection.execute(
        select(resolution_rule)
        .where(_of(resolution_rule, table))
        .order_by("sequence_no")
    )
    return TableRules(
        table=table,
        groups={row.name: tuple(row.columns) for row in groups},
        rules=tuple(_rule(row) for row in rules),
    )


def set_column_group(
    site: Site, table: str, name: str, columns: Sequence[str]
) -> TableRules:
    """Make columns a group whose update conflicts are decided together.

    Columns leave the group that they were in. (Oracle: MAKE_COLUMN_GROUP,
    ADD_GROUPED_COLUMN.) An empty list drops the group and its rules.

    Raises:
        UnknownTable, UnknownColumn.
    """
    where = names.parse(table)
    with site.begin() as connection:
        identity.read(connection)
        _require_columns(describe(connection, where), columns)
        before = load(connection, where)
        left = {
            group: [c for c in members if c not in columns]
            for group, members in before.groups.items()
            if group != name
        }
        if columns:
            left[name] = list(columns)
        connection.execute(sa.delete(column_group).where(_of(column_group, where)))
        for group, members in left.items():
            if members:
                connection.execute(
                    sa.insert(column_group).values(
                        **_named(where), name=group, columns=members
                    )
                )
        _drop_orphans(connection, where, [group for group, m in left.items() if m])
        return load(connection, where)


def add_update_resolution(
    site: Site,
    table: str,
    group: str,
    method: str,
    *,
    sequence_no: int | None = None,
    parameters: Mapping[str, object] | None = None,
) -> Rule:
    """Decide update conflicts of a column group by a method.

    Oracle: ADD_UPDATE_RESOLUTION. Methods are tried in ascending sequence until
    one decides; rules take effect with the next transaction that is applied.

    Parameters:
        group: a column group; see `set_column_group`.
        sequence_no: its place; the next free one when not given.
        parameters: what the method needs, as `snaptide rules add --help` lists.

    Raises:
        UnknownColumnGroup, RuleExists, RuleError: the method refuses it.
    """
    where = names.parse(table)
    with site.begin() as connection:
        identity.read(connection)
        known = load(connection, where)
        if group not in known.groups:
            raise UnknownColumnGroup(
                f"Table {table} has no column group {group!r}.",
                table=table,
                group=group,
            )
        taken = [r.sequence_no for r in known.rules if r.column_group == group]
        number = sequence_no if sequence_no is not None else max(taken, default=0) + 1
        if number in taken:
            raise RuleExists(f"Column group {group} has a rule {number}.")
        rule = Rule(
            kind=Kind.UPDATE,
            column_group=group,
            sequence_no=number,
            method=method,
            parameters=dict(parameters or {}),
        )
        rule.build(known.groups[group])
        connection.execute(
            sa.insert(resolution_rule).values(
                **_named(where),
                kind=rule.kind.value,
                reference=group,
                sequence_no=number,
                method=method,
                parameters=dict(rule.parameters),
            )
        )
        return rule


def drop_update_resolution(
    site: Site, table: str, group: str, sequence_no: int
) -> None:
    """Remove one rule of a column group (Oracle: DROP_UPDATE_RESOLUTION).

    Raises:
        UnknownRule: there is none at that place.
    """
    where = names.parse(table)
    with site.begin() as connection:
        gone = connection.execute(
            sa.delete(resolution_rule).where(
                _of(resolution_rule, where),
                resolution_rule.c.kind == Kind.UPDATE.value,
                resolution_rule.c.reference == group,
                resolution_rule.c.sequence_no == sequence_no,
            )
        )
        if not gone.rowcount:
            raise UnknownRule(
                f"Column group {group} of {table} has no rule {sequence_no}."
            )


def list_rules(site: Site) -> list[TableRules]:
    """Column groups and rules of all tables of a master that have any."""
    with site.begin() as connection:
        identity.read(connection)
        tables = connection.execute(
            sa.union(
                *(
                    select(t.c.table_schema, t.c.table_name)
                    for t in (column_group, resolution_rule)
                )
            )
        ).all()
        return [load(connection, QualifiedName(*row)) for row in sorted(tables)]


def _rule(row: Row[Any]) -> Rule:
    return Rule(
        kind=Kind(row.kind),
        column_group=row.reference if row.kind == Kind.UPDATE else None,
        constraint=row.reference if row.kind == Kind.UNIQUENESS else None,
        sequence_no=row.sequence_no,
        method=row.method,
        parameters=row.parameters,
    )


def _require_columns(table: Table, columns: Sequence[str]) -> None:
    unknown = [name for name in columns if name not in table.names]
    if unknown:
        raise UnknownColumn(
            f"Table {table.qualified} has no column {', '.join(map(repr, unknown))}.",
            columns=unknown,
        )


def _drop_orphans(
    connection: Connection, table: QualifiedName, groups: list[str]
) -> None:
    connection.execute(
        sa.delete(resolution_rule).where(
            _of(resolution_rule, table),
            resolution_rule.c.kind == Kind.UPDATE.value,
            resolution_rule.c.reference.not_in(groups),
        )
    )


def _of(catalog: sa.Table, table: QualifiedName) -> sa.ColumnElement[bool]:
    return sa.and_(
        catalog.c.table_schema == table.schema, catalog.c.table_name == table.name
    )


def _named(table: QualifiedName) -> dict[str, str]:
    return {"table_schema": table.schema, "table_name": table.name}
