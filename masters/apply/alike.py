"""Rows in conflict that are alike for the rules, selected as one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date
from itertools import chain
from typing import Any

import sqlalchemy as sa
from sqlalchemy import BigInteger, ColumnElement, Subquery, Text, func

from masters.apply import images
from masters.apply.images import SIDES, Compared
from sites.tables.table import Column

#: Types whose values Python and the database put in the same order, at least between
#: the two dates: beyond them, Python may have only one value for several.
_NUMERIC = {"smallint", "integer", "bigint", "numeric", "real", "double precision"}
_DATED = {"date", "timestamp without time zone", "timestamp with time zone"}
_SAFE = date(2, 1, 1), date(9998, 12, 31)

#: Calls at a time where only the order of values tells rows apart: they are a few rows
#: in Python then, and each statement about some of them looks through all.
MANY = 16_000


def select(
    compared: Compared,
    columns: Sequence[str],
    ordered: Collection[str],
    size: int | None = None,
) -> sa.Select[Any]:
    """Select rows as `Compared.select` does, but those that are alike as one.

    It has the numbers of all their calls in a chunk. Rows are alike if they do not
    differ in anything that is selected.

    Parameters:
        ordered: columns of which only the order of new and current value matters, if
            their type allows: the values of one of the rows stand for all.
        size: calls in a chunk; None if all are in one.
    """
    source = compared.staged.source
    chunk, keys = list[ColumnElement[Any]](), list[ColumnElement[Any]]()
    if size is not None:
        before = func.row_number().over(order_by=source.c.call_no) - 1
        chunk = [(before // sa.literal(size, BigInteger)).label("chunk")]
    wanted = compared.selected(columns, source.c.call_no, *chunk)
    # The facts are computed once a row, not each time that they are named.
    found = wanted.offset(0).subquery("found")
    shared = list(found.c)[1 + len(chunk) : -len(SIDES) * len(columns) or None]
    shown: list[list[ColumnElement[Any]]] = [[] for _ in SIDES]
    for n, name in enumerate(columns):
        column = compared.staged.table.column(name)
        values = [_seen(compared, found, name, found.c[f"{s}{n}"]) for s in SIDES]
        if name in ordered and sortable(column):
            keys += _order(column, *values[1:])
        else:
            keys += values if column.exact else map(_text, values)
        for side, value, some in zip(SIDES, values, shown, strict=True):
            some.append(func.any_value(value).label(f"{side}{n}"))
    numbers = sa.cast(func.array_agg(found.c.call_no), Text).label("call_nos")
    return (
        sa.select(numbers, *shared, *chain.from_iterable(shown))
        .group_by(*(found.c[one.name] for one in chunk), *shared, *keys)
        .order_by(func.min(found.c.call_no))
    )


def size(compared: Compared, columns: Sequence[str], ordered: Collection[str]) -> int:
    """How many calls a chunk of `select` has: `MANY` if they come as a few rows."""
    table = compared.staged.table
    few = all(name in ordered and sortable(table.column(name)) for name in columns)
    return MANY if few else images.CHUNK


def sortable(column: Column) -> bool:
    """Whether the database orders the values of a column as the methods do."""
    return column.type.partition("(")[0] in _NUMERIC | _DATED


def _order(
    column: Column, new: ColumnElement[Any], current: ColumnElement[Any]
) -> list[ColumnElement[Any]]:
    """What rows have in common if the same side has the higher value, or none."""
    keys: list[ColumnElement[Any]] = [new > current, new < current]
    keys += [new.is_(None), current.is_(None)]
    if column.type in _DATED:
        low, high = map(sa.literal, _SAFE)
        keys += [sa.case((sa.or_(v < low, v > high), v)) for v in (new, current)]
    return keys


def _seen(
    compared: Compared, found: Subquery, name: str, value: ColumnElement[Any]
) -> ColumnElement[Any]:
    """A value, or NULL if the row is updated and has no conflict about it."""
    if name not in compared.about:
        return value
    about = found.c.missing, found.c[compared.about[name]], found.c.kind != "U"
    return sa.case((sa.or_(*about), value))


def _text(value: ColumnElement[Any]) -> ColumnElement[Any]:
    """A value as the driver reads it: equal values of its type may differ.

    NULL and an empty text have different texts.
    """
    return sa.cast(func.row(value), Text)
