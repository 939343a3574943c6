"""Finding uniqueness conflicts: new values that rows of other keys hold, set by set.

A value that a row of the transaction gives up is free for its other rows, so a swap of
two values is no conflict. This search comes after the conflicts of column groups are
settled, because they decide which values a row will hold.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, FromClause, and_, case, or_, select

from masters.apply.detect import ConflictContext, RowConflicts
from masters.apply.images import CHUNK, Compared, chunks, image
from masters.resolution.conflict import Conflict, Kind
from sites.tables.table import Unique
from sites.transfer.values import Numbers
from sites.writing.staged import UPDATES, Staged


def touched(
    connection: Connection, staged: Staged, columns: Collection[str], unit: int
) -> bool:
    """Whether a transaction writes new values to columns of unique constraints."""
    wanted = select(sa.literal(1)).where(
        staged.source.c.unit == unit,
        or_(
            staged.kind("I", "R"),
            and_(staged.kind(*UPDATES), _changed(staged, columns)),
        ),
    )
    return connection.scalar(wanted.limit(1)) is not None


def detect(
    connection: Connection,
    compared: Compared,
    unique: Unique,
    context: ConflictContext,
    read: Sequence[str],
    calls: int,
) -> Iterator[list[RowConflicts]]:
    """The rows of a transaction whose new values another row of the master holds.

    Parameters:
        compared: as `taken` makes it.
        read, calls: as in `masters.apply.detect.detect`.
    """
    many = calls > CHUNK
    for rows in chunks(connection, compared.select(read), CHUNK, many=many):
        yield [
            RowConflicts(
                call_nos=Numbers(row.call_nos),
                tran=row.tran,
                several=row.several,
                kind=row.kind,
                present=row.kind != "I",
                alone=False,
                conflicts=(_conflict(compared.staged, unique, row, context, read),),
            )
            for row in rows
        ]


def taken(staged: Staged, unique: Unique, unit: int) -> Compared:
    """The changes of a transaction, beside the master's rows that hold their values."""
    source = staged.source
    mine = staged.table.sql().alias("mine")
    other = staged.table.sql().alias("other")
    holds = and_(
        *(
            unique.same(other.c[c], _result(staged, source, mine, c))
            for c in unique.columns
        )
    )
    return Compared(
        staged=staged,
        unit=unit,
        joined=source.outerjoin(mine, staged.same_row(mine)).join(other, holds),
        current=other,
        wrong=and_(
            or_(
                staged.kind("I", "R"),
                and_(staged.kind(*UPDATES), _changed(staged, unique.columns)),
            ),
            sa.not_(staged.same_row(other)),
            sa.not_(_given_up(staged, unique, unit, other)),
        ),
    )


def _changed(staged: Staged, columns: Iterable[str]) -> ColumnElement[bool]:
    return or_(
        sa.false(),
        *(
            sa.not_(staged.table.column(c).unchanged(staged.old(c), staged.new(c)))
            for c in sorted(columns)
        ),
    )


def _given_up(
    staged: Staged, unique: Unique, unit: int, other: FromClause
) -> ColumnElement[bool]:
    """Whether the same transaction takes these values away from that row."""
    giver = staged.source.alias("giver")
    keeps = and_(
        *(
            other.c[c].is_not_distinct_from(_result(staged, giver, other, c))
            for c in unique.columns
        )
    )
    return (
        select(sa.literal(1))
        .select_from(giver)
        .where(giver.c.unit == unit, staged.same_row(other, giver))
        .where(
            or_(
                staged.kind("D", source=giver),
                and_(staged.kind(*UPDATES, "R", source=giver), sa.not_(keeps)),
            )
        )
        .exists()
    )


def _result(
    staged: Staged, source: FromClause, current: FromClause, column: str
) -> ColumnElement[Any]:
    """The value that a column will have: an update keeps it if it did not change it."""
    old, new = staged.old(column, source), staged.new(column, source)
    left = and_(
        staged.kind(*UPDATES, source=source),
        staged.table.column(column).unchanged(old, new),
    )
    return case((left, current.c[column]), else_=new)


def _conflict(
    staged: Staged,
    unique: Unique,
    row: sa.Row[Any],
    context: ConflictContext,
    read: Sequence[str],
) -> Conflict:
    made = context.transaction_of(row.tran)
    return Conflict(
        kind=Kind.UNIQUENESS,
        table=(staged.table.schema, staged.table.name),
        constraint=unique.name,
        columns=unique.columns,
        old=None if row.kind == "I" else image(read, row, 0),
        new=image(read, row, 1),
        current=image(read, row, 2),
        origin=made.origin or context.origin,
        master=context.master,
        changed_at=made.changed_at,
        newest=context.newest,
    )
