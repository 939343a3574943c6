"""Checking that columns are those that were meant: by their numbers, not their names.

Statements name columns, and a table can be altered after it was described. PostgreSQL
looks up the present names in its caches, so that the answer is right also in a
transaction whose snapshot is older. A statement locks the tables that it names before
it runs: a table that it names keeps its columns until the end of the transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Text, cast, func, literal_column
from sqlalchemy.dialects.postgresql import OID

from sites.tables.table import Table
from sites.transfer.values import array_text
from sites.writing.staged import Staged

_TYPES: Mapping[str, sa.types.TypeEngine[Any]] = {
    "oid": OID(),
    "schema": Text(),
    "table": Text(),
    "name": Text(),
    "number": sa.Integer(),
    "type": Text(),
}

_IDENTIFIED = "pg_identify_object('pg_catalog.pg_class'::regclass, was.oid, was.number)"


def described(staged: Sequence[Staged], *, with_types: bool = True) -> dict[str, str]:
    """The staged columns as their tables were described: parameters of `moved`.

    Parameters:
        with_types: the statement runs in a session of ours, which prints types alike.
    """
    rows = [
        (
            one.table.oid,
            one.table.schema,
            one.table.name,
            name,
            (column := one.table.column(name)).number,
            column.type if with_types else None,
        )
        for one in staged
        for name in one.columns
    ]
    parts = zip(*rows, strict=True) if rows else ((),) * len(_TYPES)
    return {
        f"its_{part}": array_text(values)
        for part, values in zip(_TYPES, parts, strict=True)
    }


def others(numbers: Mapping[str, int], table: Table) -> dict[str, str | None]:
    """Columns whose names others have by now.

    Parameters:
        numbers: of columns of this table, by the names that they had.

    Returns:
        By name, the name that the column has now; None if it is gone.
    """
    called = {column.number: column.name for column in table.columns}
    return {
        name: called.get(number)
        for name, number in numbers.items()
        if name in table.names and called.get(number) != name
    }


def moved(values: Mapping[str, str] | None = None) -> ColumnElement[list[str]]:
    """The names of described columns that are others by now, or have another type.

    Parameters:
        values: as `described` gives them; otherwise the statement gets them when it is
            run.
    """
    arrays = [
        cast(
            sa.bindparam(f"its_{part}", values and values[f"its_{part}"], type_=Text),
            sa.ARRAY(type_),
        )
        for part, type_ in _TYPES.items()
    ]
    was = func.unnest(*arrays).table_valued(
        *(sa.column(part, type_) for part, type_ in _TYPES.items())
    )
    was = was.render_derived(name="was")
    full = func.format("%I.%I.%I", was.c.schema, was.c.table, was.c.name)
    now = literal_column(f"({_IDENTIFIED}).identity", Text)
    moved_or_altered = sa.or_(
        now.is_distinct_from(full), _type(was).is_distinct_from(was.c.type)
    )
    listed = sa.select(full).select_from(was).where(moved_or_altered)
    return func.array(listed.scalar_subquery(), type_=sa.ARRAY(Text))


def _type(was: sa.FromClause) -> ColumnElement[str | None]:
    """The type as it is printed now; NULL if it was not described."""
    column = sa.table(
        "pg_attribute", *map(sa.column, ("attrelid", "attnum", "atttypid", "atttypmod"))
    ).c
    # A scalar, so that PostgreSQL looks up each column by its number.
    return (
        sa.select(func.format_type(column.atttypid, column.atttypmod))
        .where(
            column.attrelid == was.c.oid,
            column.attnum == was.c.number,
            was.c.type.is_not(None),
        )
        .scalar_subquery()
    )
