"""Finding uniqueness conflicts: new values that rows of other keys hold, set by set.

What a transaction itself gives up is free for its other rows, so a swap of two
values is no conflict. Looked for after the column groups were settled, because they
decide what a row will hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, FromClause, and_, case, or_, select

from masters.conflict import Conflict, Kind
from masters.detect import Parties, RowConflicts, chunks, image, images
from sites.table import Unique
from sites.write import Staged


def constraints(staged: Staged) -> list[Unique]:
    """Unique constraints that these changes can break, but for the key of the row.

    One that holds all of the identity has no other taker than the row itself; one
    with a column that is not carried is left to the database.
    """
    return [
        unique
        for unique in staged.table.uniques
        if set(unique.columns) <= set(staged.columns)
        and not set(unique.columns) >= set(staged.identity)
    ]


def touched(
    connection: Connection, staged: Staged, constraints: Sequence[Unique], unit: int
) -> bool:
    """Whether a transaction writes new values under one of these constraints."""
    columns = {column for unique in constraints for column in unique.columns}
    wanted = select(sa.literal(1)).where(
        staged.source.c.unit == unit,
        or_(staged.kind("I", "R"), and_(staged.kind("U"), _changed(staged, columns))),
    )
    return bool(columns) and connection.scalar(wanted.limit(1)) is not None


def detect(
    connection: Connection,
    staged: Staged,
    unique: Unique,
    unit: int,
    parties: Parties,
) -> Iterator[list[RowConflicts]]:
    """The rows of a transaction whose new values another row of the master holds."""
    wanted = taken(staged, unique, unit)
    for rows in chunks(connection, wanted, staged.source.c.call_no):
        yield [
            RowConflicts(
                call_no=row.call_no,
                kind=row.kind,
                present=row.kind != "I",
                conflicts=(_conflict(staged, unique, row, parties),),
            )
            for row in rows
        ]


def taken(staged: Staged, unique: Unique, unit: int) -> sa.Select[Any]:
    """The query: a staged row, and the row of the master that is in its way."""
    source = staged.source
    mine = staged.table.sql().alias("mine")
    other = staged.table.sql().alias("other")
    return (
        select(source.c.call_no, source.c.kind, *images(staged, other))
        .select_from(
            source.outerjoin(mine, staged.same_row(mine)).join(
                other,
                and_(
                    *(
                        other.c[c] == _result(staged, source, mine, c)
                        for c in unique.columns
                    )
                ),
            )
        )
        .where(source.c.unit == unit)
        .where(
            or_(
                staged.kind("I", "R"),
                and_(staged.kind("U"), _changed(staged, unique.columns)),
            )
        )
        .where(sa.not_(staged.same_row(other)))
        .where(sa.not_(_given_up(staged, unique, unit, other)))
        .order_by(source.c.call_no)
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
                and_(staged.kind("U", "R", source=giver), sa.not_(keeps)),
            )
        )
        .exists()
    )


def _result(
    staged: Staged, source: FromClause, current: FromClause, column: str
) -> ColumnElement[Any]:
    """What a column will hold: an update leaves what it did not change."""
    old, new = staged.old(column, source), staged.new(column, source)
    left = and_(
        staged.kind("U", source=source), staged.table.column(column).unchanged(old, new)
    )
    return case((left, current.c[column]), else_=new)


def _conflict(
    staged: Staged, unique: Unique, row: sa.Row[Any], parties: Parties
) -> Conflict:
    return Conflict(
        kind=Kind.UNIQUENESS,
        table=(staged.table.schema, staged.table.name),
        constraint=unique.name,
        columns=unique.columns,
        old=None if row.kind == "I" else image(staged, row, "old"),
        new=image(staged, row, "new"),
        current=image(staged, row, "cur"),
        origin=parties.origin,
        master=parties.master,
        changed_at=parties.changed_at,
    )
