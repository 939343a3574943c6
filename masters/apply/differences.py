"""Differences between a change and the master's row of its key, as SQL conditions."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy import ColumnElement, TableClause, Text, and_, func, or_
from sqlalchemy.dialects.postgresql import array

from masters.rules.table_rules import Comparison
from sites.writing.staged import MOVE, UPDATES, Staged

#: Names of column groups with their columns; the name of the shadow group is None.
Groups = Sequence[tuple[str | None, tuple[str, ...]]]

#: Kinds of changes whose row must exist at the master.
OF_ROWS = (*UPDATES, "D", "R", "S")


def unexpected(
    staged: Staged, target: TableClause, groups: Groups, compared: Comparison
) -> ColumnElement[bool]:
    """Whether a row of the master is not as a change of it expects.

    As in Oracle, a row that gets another key is compared in all columns. If only the
    old key were compared, the change could rename another row that has taken that key.

    Parameters:
        target: the master table, as it stands in the statement.
    """
    disagree = [at_update(staged, target, columns, compared) for _, columns in groups]
    in_conflict = [
        and_(disagrees, changed(staged, columns))
        for disagrees, (_, columns) in zip(disagree, groups, strict=True)
    ]
    others = [
        _differs(staged, target, compared.at_delete(columns, staged.columns))
        for _, columns in groups
    ]
    return or_(
        and_(staged.kind(*UPDATES), or_(sa.false(), *in_conflict)),
        and_(staged.kind("D", "R"), or_(sa.false(), *others)),
        and_(staged.kind(MOVE), or_(sa.false(), *disagree)),
        and_(
            staged.source.c.several,
            staged.kind(*OF_ROWS),
            _is_another(staged, target),
        ),
    )


def at_update(
    staged: Staged, target: TableClause, columns: Sequence[str], compared: Comparison
) -> ColumnElement[bool]:
    """Whether old values differ from the master's, in columns compared at an update."""
    return _differs(staged, target, compared.at_update(columns, staged.columns))


def _differs(
    staged: Staged, target: TableClause, columns: Sequence[str]
) -> ColumnElement[bool]:
    return or_(
        sa.false(),
        *(
            sa.not_(staged.table.column(name).same_as(staged.old(name), target.c[name]))
            for name in columns
        ),
    )


def is_not(staged: Staged, target: TableClause) -> ColumnElement[bool]:
    """Whether the master's row differs from the new one in any column."""
    return sa.not_(
        and_(
            *(
                staged.table.column(name).same_as(staged.new(name), target.c[name])
                for name in staged.columns
            )
        )
    )


def leaves(
    staged: Staged, unit: int | ColumnElement[int], row: sa.FromClause
) -> ColumnElement[bool]:
    """Whether the same transaction deletes a row, or gives it another key."""
    giver = staged.source.alias("giver")
    return (
        sa.select(sa.literal(1))
        .select_from(giver)
        .where(giver.c.unit == unit, staged.same_row(row, giver))
        .where(staged.kind("D", MOVE, source=giver))
        .exists()
    )


def _is_another(staged: Staged, target: TableClause) -> ColumnElement[bool]:
    """Whether the master's row differs from the old values in any column."""
    return or_(
        *(
            sa.not_(
                staged.table.column(name).unchanged(staged.old(name), target.c[name])
            )
            for name in staged.columns
        )
    )


def changed(staged: Staged, columns: Sequence[str]) -> ColumnElement[bool]:
    """Whether a change gives any of these columns another value."""
    return or_(
        *(
            sa.not_(
                staged.table.column(name).unchanged(staged.old(name), staged.new(name))
            )
            for name in columns
        )
    )


def changes(staged: Staged) -> ColumnElement[list[str]]:
    """The columns to which a change gives other values."""
    names = [
        sa.case((changed(staged, (name,)), sa.literal(name, Text)))
        for name in staged.columns
    ]
    return func.array_remove(array(names), sa.null())
