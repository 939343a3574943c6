"""Administration of column groups and rules, one at a time.

`masters.rules.rulebook` sets all of them at once from a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy import Connection

from masters.catalog import column_group, resolution_rule
from masters.errors import RuleExists, UnknownRule
from masters.resolution.conflict import Kind
from masters.rules import rulebook
from masters.rules.catalog import insert
from masters.rules.checks import checked, require_columns
from masters.rules.rule import Rule
from masters.rules.table_rules import TableRules, load, named, of, rule_of, ruled
from sites import QualifiedName, Site, names
from sites.sessions import identity
from sites.tables.table import describe


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
    with rulebook.changing(site) as connection:
        require_columns(describe(connection, where), columns)
        before = load(connection, where)
        left = {
            group: [c for c in members if c not in columns]
            for group, members in before.groups.items()
            if group != name
        }
        if columns:
            left[name] = list(columns)
        connection.execute(sa.delete(column_group).where(of(column_group, where)))
        for group, members in left.items():
            if members:
                connection.execute(
                    sa.insert(column_group).values(
                        **named(where), name=group, columns=members
                    )
                )
        _drop_orphans(connection, where, [group for group, m in left.items() if m])
        what = f"set column group {name} of {where}"
        rulebook.note(connection, what, {where: columns})
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
        sequence_no: place in the sequence; by default the one after the last.
        parameters: parameters of the method; its docstring lists them.

    Raises:
        UnknownTable, UnknownColumnGroup, RuleExists.
        RuleError: the method refuses it.
    """
    return _add(site, table, Kind.UPDATE, group, method, sequence_no, parameters)


def add_unique_resolution(
    site: Site,
    table: str,
    constraint: str,
    method: str,
    *,
    sequence_no: int | None = None,
    parameters: Mapping[str, object] | None = None,
) -> Rule:
    """Decide uniqueness conflicts of a constraint by a method.

    Oracle: ADD_UNIQUE_RESOLUTION. A method that appends to a text gets the length of
    the column as its parameter `length`, unless that is given.

    Parameters:
        constraint: a primary key, unique constraint or unique index of the table.
        sequence_no, parameters: as for `add_update_resolution`.

    Raises:
        UnknownTable, UnknownConstraint, RuleExists.
        RuleError: the method refuses it.
    """
    return _add(
        site, table, Kind.UNIQUENESS, constraint, method, sequence_no, parameters
    )


def add_delete_resolution(
    site: Site,
    table: str,
    method: str,
    *,
    sequence_no: int | None = None,
    parameters: Mapping[str, object] | None = None,
) -> Rule:
    """Decide delete conflicts of a table by a method.

    Oracle: ADD_DELETE_RESOLUTION, which takes routines only; `ignore` is Virtuoso's.

    Parameters:
        sequence_no, parameters: as for `add_update_resolution`.

    Raises:
        UnknownTable, RuleExists.
        RuleError: the method refuses it.
    """
    return _add(site, table, Kind.DELETE, "", method, sequence_no, parameters)


def drop_update_resolution(
    site: Site, table: str, group: str, sequence_no: int
) -> None:
    """Remove one rule of a column group (Oracle: DROP_UPDATE_RESOLUTION).

    Raises:
        UnknownRule: there is none at that place.
    """
    _drop(site, table, Kind.UPDATE, group, sequence_no)


def drop_unique_resolution(
    site: Site, table: str, constraint: str, sequence_no: int
) -> None:
    """Remove one rule of a constraint (Oracle: DROP_UNIQUE_RESOLUTION).

    Raises:
        UnknownRule: there is none at that place.
    """
    _drop(site, table, Kind.UNIQUENESS, constraint, sequence_no)


def drop_delete_resolution(site: Site, table: str, sequence_no: int) -> None:
    """Remove one rule for delete conflicts (Oracle: DROP_DELETE_RESOLUTION).

    Raises:
        UnknownRule: there is none at that place.
    """
    _drop(site, table, Kind.DELETE, "", sequence_no)


def list_rules(site: Site) -> list[TableRules]:
    """Column groups and rules of all tables of a master that have any."""
    with identity.initialised(site) as connection:
        return [load(connection, table) for table in ruled(connection)]


def _add(
    site: Site,
    table: str,
    kind: Kind,
    reference: str,
    method: str,
    sequence_no: int | None,
    parameters: Mapping[str, object] | None,
) -> Rule:
    where = names.parse(table)
    with rulebook.changing(site) as connection:
        known = load(connection, where)
        taken = [
            rule.sequence_no
            for rule in known.rules
            if (rule.kind, rule.reference) == (kind, reference)
        ]
        number = sequence_no if sequence_no is not None else max(taken, default=0) + 1
        if number in taken:
            raise RuleExists(
                f"{table} already has a rule {number} for {_subject(kind, reference)}."
            )
        rule = rule_of(kind, reference, number, method, parameters or {})
        rule = checked(rule, describe(connection, where), known.groups)
        insert(connection, where, rule)
        what = f"add {method} for {kind} conflicts of {where}"
        of_rule = TableRules(table=where, groups={}, rules=(rule,))
        rulebook.note(connection, what, {where: of_rule.names})
        return rule


def _drop(site: Site, table: str, kind: Kind, reference: str, sequence_no: int) -> None:
    where = names.parse(table)
    with rulebook.changing(site) as connection:
        gone = connection.execute(
            sa.delete(resolution_rule).where(
                of(resolution_rule, where),
                resolution_rule.c.kind == kind.value,
                resolution_rule.c.reference == reference,
                resolution_rule.c.sequence_no == sequence_no,
            )
        )
        if not gone.rowcount:
            raise UnknownRule(
                f"{table} has no rule {sequence_no} for {_subject(kind, reference)}."
            )
        rulebook.note(connection, f"drop rule for {kind} conflicts of {where}", {})


def _subject(kind: Kind, reference: str) -> str:
    if kind is Kind.UPDATE:
        return f"column group {reference}"
    return f"constraint {reference}" if reference else "delete conflicts"


def _drop_orphans(
    connection: Connection, table: QualifiedName, groups: list[str]
) -> None:
    connection.execute(
        sa.delete(resolution_rule).where(
            of(resolution_rule, table),
            resolution_rule.c.kind == Kind.UPDATE.value,
            resolution_rule.c.reference.not_in(groups),
        )
    )
