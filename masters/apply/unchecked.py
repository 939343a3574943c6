"""Tables whose changes are applied without a look for conflicts.

Ingres calls them unprotected read-only targets: copies for readers, of any table that
has the columns. An inserted or updated row overwrites the row that is there, and a
deleted row is gone afterwards, whether it was there or not.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import BigInteger, ColumnElement, Connection, cast, func, select
from sqlalchemy.dialects.postgresql import OID, insert

from masters.catalog import unchecked_table
from sites import QualifiedName
from sites.names import numbered
from sites.writing.staged import MOVE, Staged

_at = unchecked_table.c


def set_unchecked(
    connection: Connection, *tables: QualifiedName, unchecked: bool
) -> None:
    """Apply changes to tables unchecked from now on, or look for conflicts again."""
    if not tables:
        return
    if unchecked:
        new = insert(unchecked_table).values(
            [{"table_schema": one.schema, "table_name": one.name} for one in tables]
        )
        connection.execute(new.on_conflict_do_nothing())
        return
    places = [(one.schema, one.name) for one in tables]
    mine = sa.tuple_(_at.table_schema, _at.table_name).in_(places)
    connection.execute(sa.delete(unchecked_table).where(mine))


def oids() -> ColumnElement[Any]:
    """Expression for the oids of such tables, as an array."""
    name = func.format("%I.%I", _at.table_schema, _at.table_name)
    number = cast(cast(func.to_regclass(name), OID), BigInteger)
    return func.array(select(number).scalar_subquery()).label("unchecked")


def take(
    connection: Connection, staged: Staged, unit: int, count: dict[str, int]
) -> None:
    """Change staged rows of a unit so that they fit the rows that are there.

    Rows that several transactions together leave as they were are written too, because
    each transaction by itself would have written them. Writes the work table.

    Parameters:
        count: how many rows there are of each kind; kept up to date.
    """
    source, target = staged.source, staged.table.sql()
    mine = source.c.unit == unit
    there = sa.exists().select_from(target).where(staged.same_row(target))
    written, gone = staged.kind("I", "U", "R", "S"), staged.kind("D", "A")
    moved = sa.and_(staged.kind(MOVE), staged.old(staged.identity[0]).is_(None))
    written = sa.or_(written, moved)
    # If the row of a changed key is not there, only the row of the new key is written.
    connection.execute(
        sa.update(source)
        .values({source.c[name]: sa.null() for name in _olds(staged)})
        .where(mine, staged.kind(MOVE), sa.not_(there))
    )
    olds = {
        source.c[old]: target.c[name]
        for old, name in zip(_olds(staged), staged.columns, strict=True)
    }
    as_it_is = ("U", written), ("D", staged.kind("A")), (MOVE, staged.kind(MOVE))
    for kind, which in as_it_is:
        connection.execute(
            sa.update(source)
            .values({source.c.kind: kind, **olds})
            .where(mine, which, staged.same_row(target))
        )
    for kind, which in (("I", written), ("N", gone)):
        connection.execute(
            sa.update(source)
            .values({source.c.kind: kind})
            .where(mine, which, sa.not_(there))
        )
    kinds = (
        select(source.c.kind, func.count().label("rows"))
        .where(mine)
        .group_by(source.c.kind)
    )
    count.clear()
    count.update({row.kind: row.rows for row in connection.execute(kinds)})


def _olds(staged: Staged) -> tuple[str, ...]:
    return numbered("o", staged.columns)
