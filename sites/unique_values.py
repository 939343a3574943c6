"""Unique values that pass from one row to another within one write.

Each statement of a write is checked by itself, so a value that one row gives up and
another takes is freed first: the row that has it is parked for a moment.
The builders only build; `sites.write` executes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, and_, func, or_
from sqlalchemy.sql.dml import Update

from sites.errors import NoFreeValue
from sites.staged import Staged, selected, updated
from sites.table import Column, Table, Unique


def movable(staged: Staged) -> list[Unique]:
    """Unique keys whose values these changes can move from one row to another.

    One that holds all of the identity has no other taker than the row itself.
    """
    return [
        unique
        for unique in staged.table.uniques
        if set(unique.columns) <= set(staged.columns)
        and not set(unique.columns) >= set(staged.identity)
        and not unique.deferrable
    ]


def pin(staged: Staged, unique: Unique, rows: Mapping[str, Any]) -> Update | None:
    """Have an update write the column that parking overwrites, changed or not.

    A unique key of several columns is parked in one that the change may leave
    alone; the value to come back to is the one that the target has now.

    Returns:
        None where an update writes that column anyway.
    """
    if not staged.has_old or len(unique.columns) == 1:
        return None
    target = staged.table.sql()
    spot = parking_column(staged.table, unique, staged.identity)
    old, new = staged.old(spot.name), staged.new(spot.name)
    return (
        sa.update(staged.source)
        .values({old: sa.null(), new: target.c[spot.name]})
        .where(selected(staged.source, rows), staged.kind("U"))
        .where(staged.same_row(target), spot.unchanged(old, new))
        .where(target.c[spot.name].is_not(None))
    )


def park(staged: Staged, unique: Unique, rows: Mapping[str, Any]) -> Update:
    """Free unique values that one row of the changes gives up and another takes.

    Parameters:
        rows: equalities that select the changes in the source (column -> value).

    Raises:
        NoFreeValue: the unique key has no column that can be parked.
    """
    target = staged.table.sql()
    giver, taker = staged.source.alias("giver"), staged.source.alias("taker")
    moved = or_(
        *(
            updated(staged, target, c, giver).is_distinct_from(target.c[c])
            for c in unique.columns
        )
    )
    spot = parking_column(staged.table, unique, staged.identity)
    return (
        sa.update(target)
        .values({target.c[spot.name]: _parked(spot)})
        .where(selected(giver, rows), selected(taker, rows))
        .where(staged.same_row(target, giver))
        .where(
            or_(
                staged.kind("D", "R", source=giver),
                and_(staged.kind("U", source=giver), moved),
            )
        )
        .where(staged.kind("I", "U", "R", source=taker))
        .where(*(target.c[c] == staged.new(c, taker) for c in unique.columns))
        .where(sa.not_(staged.same_row(target, taker)))
    )


def parking_column(table: Table, unique: Unique, identity: Sequence[str]) -> Column:
    """The column of a unique key that can be freed for a moment.

    Parameters:
        identity: the columns by which rows are found again; they stay.

    Raises:
        NoFreeValue: none is nullable or of a type with free values.
    """
    columns = [
        column
        for column in map(table.column, unique.columns)
        if column.name not in identity
        and not column.generated
        and column.identity != "a"
    ]
    for column in columns:
        if column.nullable:
            return column
    for column in columns:
        if _free_value(column) is not None:
            return column
    raise NoFreeValue(
        f"Unique key {unique.name} of {table.qualified} cannot be parked."
    )


def _parked(column: Column) -> ColumnElement[Any]:
    value = sa.null() if column.nullable else _free_value(column)
    assert value is not None
    return value


def _free_value(column: Column) -> ColumnElement[Any] | None:
    base = column.type.partition("(")[0]
    if base in ("integer", "bigint"):
        return sa.cast(-2_000_000_000 * func.random(), sa.BigInteger)
    if base in ("text", "character varying"):
        return func.left(
            func.md5(sa.cast(func.gen_random_uuid(), sa.Text)), _length(column.type)
        )
    return func.gen_random_uuid() if base == "uuid" else None


def _length(type_name: str) -> int:
    _, _, size = type_name.partition("(")
    return min(int(size.rstrip(")")), 32) if size else 32
