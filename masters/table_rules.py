"""What is compared in a table and who settles its conflicts, as the catalog has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection, func, select

from masters.catalog import column_group, resolution_rule, rules_version
from masters.conflict import Kind
from masters.resolve import Rule
from sites import QualifiedName


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRules:
    """The column groups and rules of one table."""

    table: QualifiedName
    #: name -> columns; a column is in at most one
    groups: Mapping[str, tuple[str, ...]]
    rules: tuple[Rule, ...]
    #: number of the last change of any rule of this master, 0 before the first
    version: int = 0

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


_LAST_VERSION = (
    select(func.coalesce(func.max(rules_version.c.id), 0))
    .scalar_subquery()
    .label("version")
)


def load(connection: Connection, table: QualifiedName) -> TableRules:
    """The rules of a table as the catalog holds them."""
    groups = connection.execute(
        select(column_group.c.name, column_group.c.columns)
        .where(of(column_group, table))
        .order_by("id")
    )
    rules = connection.execute(
        select(resolution_rule, _LAST_VERSION)
        .where(of(resolution_rule, table))
        .order_by("sequence_no")
    ).all()
    return TableRules(
        table=table,
        groups={row.name: tuple(row.columns) for row in groups},
        rules=tuple(
            rule_of(
                Kind(row.kind),
                row.reference,
                row.sequence_no,
                row.method,
                row.parameters,
            )
            for row in rules
        ),
        version=rules[0].version if rules else 0,
    )


def rule_of(
    kind: Kind,
    reference: str,
    sequence_no: int,
    method: str,
    parameters: Mapping[str, object],
) -> Rule:
    """A rule from what the catalog, or a file, says about it."""
    return Rule(
        kind=kind,
        column_group=reference if kind is Kind.UPDATE else None,
        constraint=reference if kind is Kind.UNIQUENESS else None,
        sequence_no=sequence_no,
        method=method,
        parameters=dict(parameters),
    )


def of(catalog: sa.Table, table: QualifiedName) -> sa.ColumnElement[bool]:
    """The rows of a catalog table that are about a table of the user's."""
    return sa.and_(
        catalog.c.table_schema == table.schema, catalog.c.table_name == table.name
    )


def named(table: QualifiedName) -> dict[str, str]:
    """A table of the user's, as catalog tables name it."""
    return {"table_schema": table.schema, "table_name": table.name}
