"""Tables that take what comes, without a look for conflicts.

Ingres calls them unprotected read-only targets: copies for those who only read, of
any table that has the columns. What is inserted or updated is written over what is
there, what is deleted is gone afterwards.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import BigInteger, ColumnElement, Connection, cast, func, select
from sqlalchemy.dialects.postgresql import OID, insert

from masters.catalog import unchecked_table
from sites import QualifiedName
from sites.staged import MOVE, Staged
from sites.triggers import numbered

_at = unchecked_table.c


def set_unchecked(
    connection: Connection, table: QualifiedName, *, unchecked: bool
) -> None:
    """Take what comes to a table from now on, or look for conflicts again."""
    place = {"table_schema": table.schema, "table_name": table.name}
    if unchecked:
        new = insert(unchecked_table).values(**place)
        connection.execute(new.on_conflict_do_nothing())
        return
    mine = sa.and_(_at.table_schema == table.schema, _at.table_name == table.name)
    connection.execute(sa.delete(unchecked_table).where(mine))


def oids() -> ColumnElement[Any]:
    """Asks for such tables, as an array of their numbers."""
    name = func.format("%I.%I", _at.table_schema, _at.table_name)
    number = cast(cast(func.to_regclass(name), OID), BigInteger)
    return func.array(select(number).scalar_subquery()).label("unchecked")


def take(
    connection: Connection, staged: Staged, unit: int, count: dict[str, int]
) -> None:
    """Stage the changes of a unit so that they fit the rows that are there.

    Rows that several transactions together leave as they were are written too: each
    of them by itself would have done so. Writes the work table.

    Parameters:
        count: how many rows there are of each kind; kept up to date.
    """
    source, target = staged.source, staged.table.sql()
    mine = source.c.unit == unit
    there = sa.exists().select_from(target).where(staged.same_row(target))
    written, gone = staged.kind("I", "U", "R", "S"), staged.kind("D", "A")
    moved = sa.and_(staged.kind(MOVE), staged.old(staged.identity[0]).is_(None))
    written = sa.or_(written, moved)
    # A changed key whose row is not there is one row of the new key.
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
