"""Rows that a delete would take along, although its transaction does not name them.

A foreign key of the master deletes rows that refer to a deleted one, or takes their
reference away. Where the site had them too, its own keys did so there, and the
transaction says it. Others the site did not know, or a rule has just kept: that is a
delete conflict of the row that they refer to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    FromClause,
    Text,
    and_,
    exists,
    func,
    literal_column,
    or_,
    select,
)
from sqlalchemy.dialects.postgresql import OID, aggregate_order_by

from masters import detect
from masters.detect import Parties, RowConflicts
from masters.images import Compared, chosen
from sites.references import Referring, referring
from sites.staged import UPDATES, Staged

#: So many rows that a delete takes along are named; of others it is said that they are.
NAMED = 100

#: So deep cascades are looked through for rows to be named.
_DEEPEST = 16

#: Tables whose rows may not be deleted without a look at others.
TABLES = func.array(
    select(literal_column("confrelid", OID).cast(BigInteger))
    .select_from(sa.text("pg_constraint"))
    .where(
        literal_column("contype") == "f",
        literal_column("confdeltype").in_(("c", "n", "d")),
    )
    .scalar_subquery()
).label("reaching")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Path:
    """Rows that are reached, joined with the deletes that reach them."""

    joined: FromClause
    others: tuple[ColumnElement[bool], ...]
    #: the last of them, and their table
    rows: Any
    table: int


def conflicts(
    connection: Connection,
    staged: Staged,
    among: Sequence[Staged],
    unit: int,
    parties: Parties,
    read: Sequence[str],
    *,
    but: Collection[int] = (),
) -> tuple[Compared, list[RowConflicts]]:
    """The delete conflicts of rows that others refer to.

    Parameters:
        among: the work tables of the unit, whose rows are named by it.
        read: the columns whose values the conflicts hold.
        but: numbers of deletes that need not be looked at.
    """
    taken = taken_along(connection, staged, among, unit, but)
    compared = replace(
        detect.with_rows(staged, unit, ()), wrong=chosen(staged, unit, list(taken))
    )
    if not taken:
        return compared, []
    found = detect.detect(connection, compared, (), parties, read, many=False)
    rows = [row for some in found for row in some]
    return compared, [_taking(row, taken[row.call_no]) for row in rows]


def _taking(row: RowConflicts, others: tuple[str, ...]) -> RowConflicts:
    each = (replace(one, takes_along=others) for one in row.conflicts)
    return replace(row, conflicts=tuple(each))


def taken_along(
    connection: Connection,
    staged: Staged,
    among: Sequence[Staged],
    unit: int,
    but: Collection[int] = (),
) -> Mapping[int, tuple[str, ...]]:
    """What deletes of a unit would take along: call number -> other rows, in words.

    Locks the rows that are to be deleted: nobody else adds what refers to them.

    Parameters:
        among: the work tables of the unit, whose rows are named by it.
        but: numbers of deletes that need not be looked at.
    """
    deleted = staged.table.sql().alias("deleted")
    mine = and_(
        staged.source.c.unit == unit,
        staged.kind("D"),
        staged.source.c.call_no.not_in(but),
    )
    start = _Path(
        joined=staged.source.join(deleted, staged.same_row(deleted)),
        others=(mine,),
        rows=deleted,
        table=staged.table.oid,
    )
    _lock(connection, staged, start)
    found: defaultdict[int, list[str]] = defaultdict(list)
    paths = [start]
    for depth in range(_DEEPEST):
        paths = list(_further(connection, staged, paths, among, unit, found, depth))
        if not paths:
            break
    return {number: tuple(rows) for number, rows in found.items()}


def _lock(connection: Connection, staged: Staged, start: _Path) -> None:
    keys = [start.rows.c[name] for name in staged.identity]
    locked = (
        select(sa.literal(1))
        .select_from(start.joined)
        .where(*start.others)
        .order_by(*keys)
        .with_for_update(of=start.rows)
        .subquery()
    )
    connection.execute(select(func.count()).select_from(locked))


def _further(
    connection: Connection,
    staged: Staged,
    paths: Sequence[_Path],
    among: Sequence[Staged],
    unit: int,
    found: defaultdict[int, list[str]],
    depth: int,
) -> Iterator[_Path]:
    """Go one foreign key further, note what is there, and tell where to go on."""
    keys = referring(connection, {path.table for path in paths})
    for path in paths:
        for number, key in enumerate(keys):
            if key.parent != path.table or not key.acts_on_delete:
                continue
            rows = _table(connection, key).alias(f"reached_{depth}_{number}")
            refers = and_(
                *(
                    rows.c[own] == path.rows.c[theirs]
                    for own, theirs in zip(key.columns, key.parent_columns, strict=True)
                )
            )
            known = [_named(one, key, rows, unit) for one in _of(among, key)]
            reached = _Path(
                joined=path.joined.join(rows, refers),
                others=(*path.others, *(sa.not_(one) for one in known)),
                rows=rows,
                table=key.whole,
            )
            told = _told(connection, staged, reached, key)
            for call_no, words in told.items():
                found[call_no] += words
            if told and key.on_delete == "c":
                yield reached


def _of(among: Sequence[Staged], key: Referring) -> list[Staged]:
    return [one for one in among if one.table.oid == key.whole]


def _table(connection: Connection, key: Referring) -> sa.TableClause:
    """The table that refers, with all columns that it is joined by."""
    names = connection.scalars(
        sa.text(
            "SELECT attname FROM pg_attribute"
            " WHERE attrelid = CAST(:oid AS oid) AND attnum > 0 AND NOT attisdropped"
        ),
        {"oid": key.oid},
    )
    return sa.table(key.child.name, *map(sa.column, names), schema=key.child.schema)


def _named(
    staged: Staged, key: Referring, rows: FromClause, unit: int
) -> ColumnElement[bool]:
    """Whether the unit itself deletes a row, or has it refer to another one."""
    source = staged.source.alias()
    away: ColumnElement[bool] = staged.kind("D", source=source)
    if set(key.columns) <= set(staged.columns):
        elsewhere = or_(
            *(
                staged.new(name, source).is_distinct_from(rows.c[name])
                for name in key.columns
            )
        )
        away = or_(away, and_(staged.kind(*UPDATES, "R", source=source), elsewhere))
    return exists(
        select(sa.literal(1))
        .select_from(source)
        .where(source.c.unit == unit, staged.same_row(rows, source), away)
    )


def _told(
    connection: Connection, staged: Staged, reached: _Path, key: Referring
) -> Mapping[int, list[str]]:
    """The rows that are reached, by the delete: as the database prints them."""
    call_no = staged.source.c.call_no
    row = sa.cast(reached.rows.table_valued(), Text)
    words = func.array_agg(aggregate_order_by(row, row))
    found = connection.execute(
        select(
            call_no,
            func.trim_array(
                words, sa.cast(func.greatest(func.count() - NAMED, 0), sa.Integer)
            ),
            func.count(),
        )
        .select_from(reached.joined)
        .where(*reached.others)
        .group_by(call_no)
    )
    return {number: _words(key, rows, count) for number, rows, count in found}


def _words(key: Referring, rows: Sequence[str], count: int) -> list[str]:
    named = [f"{key.child} {row}" for row in rows]
    left = count - len(named)
    return [*named, f"{left} more of {key.child}"] if left else named
