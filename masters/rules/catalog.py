"""Storing rules in the catalog of a master."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Connection

from masters.catalog import column_group, comparison, resolution_rule
from masters.rules.rule import Rule
from masters.rules.table_rules import EVERYTHING, Comparison, TableRules, named
from sites import QualifiedName


def insert(connection: Connection, table: QualifiedName, rule: Rule) -> None:
    """Store a rule. Writes resolution_rule."""
    connection.execute(
        sa.insert(resolution_rule).values(
            **named(table),
            kind=rule.kind.value,
            reference=rule.reference,
            sequence_no=rule.sequence_no,
            method=rule.method,
            parameters=dict(rule.parameters),
        )
    )


def write_comparison(
    connection: Connection, table: QualifiedName, found: Comparison
) -> None:
    """Store which old values of a table are compared. Writes comparison."""
    connection.execute(
        sa.delete(comparison).where(
            comparison.c.table_schema == table.schema,
            comparison.c.table_name == table.name,
        )
    )
    if found != EVERYTHING:
        connection.execute(
            sa.insert(comparison).values(
                **named(table),
                row_version=found.row_version,
                not_at_update=list(found.not_at_update),
                not_at_delete=list(found.not_at_delete),
                not_sent_at_update=list(found.not_sent_at_update),
                not_sent_at_delete=list(found.not_sent_at_delete),
            )
        )


def write(connection: Connection, one: TableRules) -> None:
    """Store all rules of a table. Writes column_group, resolution_rule, comparison."""
    for name, columns in one.groups.items():
        connection.execute(
            sa.insert(column_group).values(
                **named(one.table), name=name, columns=list(columns)
            )
        )
    for rule in one.rules:
        insert(connection, one.table, rule)
    write_comparison(connection, one.table, one.comparison)
