"""Writing staged changes to a table, set by set, in an order that constraints allow.

Rows whose unique values other rows take are parked first
(`sites.writing.unique_values`). Then rows are inserted (parents first), updated, and
last deleted, children first: a delete before the update would cascade to a child that
moves to another parent.

`write` executes the statements that the other functions build. The apply at a master
and the merge at a snapshot use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.dml import Delete, Insert, Update

from sites import faults
from sites.errors import NoFreeValue
from sites.names import QualifiedName
from sites.progress import RowsDone
from sites.tables.table import Table, Unique
from sites.writing import moves
from sites.writing.counted import Counted
from sites.writing.staged import (
    MOVE,
    UPDATES,
    Staged,
    leaves_alone,
    selected,
    updated,
)
from sites.writing.unique_values import park, passing, pin


def parents_first(tables: Sequence[Table]) -> list[QualifiedName]:
    """Order tables so that parents come before tables that refer to them.

    A table in no cycle comes after all its parents, also those in cycles.
    """
    waiting = {
        t.qualified: {f.parent for f in t.foreign_keys} - {t.qualified} for t in tables
    }
    ordered: list[QualifiedName] = []
    while waiting:
        free = [
            name for name, parents in waiting.items() if not parents & waiting.keys()
        ]
        for name in free or [_first_of_cycle(waiting)]:
            ordered.append(name)
            del waiting[name]
    return ordered


def _first_of_cycle(
    waiting: Mapping[QualifiedName, Set[QualifiedName]],
) -> QualifiedName:
    """A table to which all tables refer back that it refers to, also through others."""
    above = {name: _above(waiting, name) for name in waiting}
    return next(
        name for name, them in above.items() if all(name in above[one] for one in them)
    )


def _above(
    waiting: Mapping[QualifiedName, Set[QualifiedName]], name: QualifiedName
) -> set[QualifiedName]:
    found: set[QualifiedName] = set()
    following = [name]
    while following:
        new = (waiting[following.pop()] & waiting.keys()) - found
        found |= new
        following.extend(new)
    return found


def insert(
    staged: Staged, rows: Mapping[str, Any], *kinds: str, skip_existing: bool = False
) -> Insert:
    """Insert the new rows of the given kinds.

    Parameters:
        skip_existing: leave out rows whose key or unique value exists already.
    """
    target = staged.table.sql()
    values = sa.select(*(staged.new(c) for c in staged.columns)).where(
        selected(staged.source, rows), staged.kind(*kinds)
    )
    if skip_existing and any(unique.deferrable for unique in staged.table.uniques):
        # ON CONFLICT does not support deferrable constraints.
        skip_existing, values = False, values.where(*_not_there(staged))
    always = any(staged.table.column(c).identity == "a" for c in staged.columns)
    statement = _InsertOverriding(target) if always else postgresql.insert(target)
    inserted = statement.from_select(list(staged.columns), values)
    return inserted.on_conflict_do_nothing() if skip_existing else inserted


def _not_there(staged: Staged) -> Iterator[ColumnElement[bool]]:
    """Conditions that no row has a unique value of a new row."""
    held = staged.table.sql().alias("held")
    for unique in staged.table.uniques:
        if set(unique.columns) <= set(staged.columns):
            same = [unique.same(held.c[c], staged.new(c)) for c in unique.columns]
            yield ~sa.exists().where(*same)


def update(
    staged: Staged, rows: Mapping[str, Any], *kinds: str, was_there: bool = False
) -> Update:
    """Update rows in place; columns that a change left alone keep the target's value.

    Parameters:
        kinds: 'U', and 'R' if a replaced row has to stay.
        was_there: as for `Staged.same_row`.
    """
    target = staged.table.sql()
    columns = [staged.table.column(name) for name in staged.columns]
    values = {
        target.c[column.name]: updated(staged, target, column.name)
        for column in columns
        # Equal keys of inexact types may differ and are written; others are left out,
        # because an update of a key takes a stronger lock.
        if column.identity != "a"
        and (column.name not in staged.identity or not column.exact)
    }
    # Rows that are all key still have to be updated: the caller counts them.
    first = target.c[staged.identity[0]]
    return (
        sa.update(target)
        .values(values or {first: first})
        .where(
            selected(staged.source, rows),
            staged.kind(*(kinds or ("U",))),
            staged.same_row(target, was_there=was_there),
            *leaves_alone(staged, target),
        )
    )


def delete(
    staged: Staged, rows: Mapping[str, Any], *kinds: str, was_there: bool = False
) -> Delete:
    """Delete the rows of the given kinds.

    Parameters:
        was_there: as for `Staged.same_row`.
    """
    target = staged.table.sql()
    same_row = staged.same_row(target, was_there=was_there)
    return sa.delete(target).where(
        selected(staged.source, rows), staged.kind(*kinds), same_row
    )


def pass_on(
    connection: Connection,
    staged: Staged,
    unique: Unique,
    rows: Mapping[str, Any],
    *kinds: str,
    givers: Mapping[str, Any] | None = None,
) -> None:
    """Let values of a unique key pass from row to row: park the rows that hold them.

    Parameters:
        kinds: the kinds of changes that are written by an update.
        givers: equalities for changes whose rows may be parked; None: those of `rows`.

    Raises:
        NoFreeValue: some values pass, and no free value can stand in for them.
    """
    try:
        pinned = pin(staged, unique, rows, *kinds)
        parked = park(staged, unique, rows, givers)
    except NoFreeValue:
        needed = passing(staged, unique, rows, givers).limit(1)
        if connection.execute(needed).first() is not None:
            raise
        return
    if pinned is not None:
        connection.execute(pinned)
    connection.execute(parked)


def write(
    connection: Connection,
    changes: Sequence[Staged],
    counts: Sequence[Mapping[str, int]],
    rows: Mapping[str, Any],
    on_progress: RowsDone | None = None,
) -> None:
    """Write changes to all their tables; each statement must touch exactly its rows.

    Parameters:
        counts: for each of `changes`, how many rows there are of each kind.
        rows: equalities that select the changes in each source.
        on_progress: called from time to time with the number of rows written. Large
            writes are then divided, unless users' statement triggers would notice.

    Raises:
        RowCountMismatch: a statement touched more or fewer rows than it should.
        NoFreeValue: a unique value passes from row to row, and no free value can
            stand in for it meanwhile.
    """
    counted = Counted(connection=connection, rows=rows, on_progress=on_progress)
    paired = _ordered(zip(changes, counts, strict=True))
    anew = replaced_anew(paired)
    if any(count.get(MOVE) for _, count in paired):
        moves_below = partial(_moves_below, paired)
        paired = moves.prepared(connection, paired, rows, moves_below)
    _pass_all_on(connection, paired, rows, anew)
    faults.point("write.after_park")
    early = _below(paired, anew)
    for staged, count in reversed(paired):
        if staged.table.qualified in early:
            counted.run(delete, staged, count, "D")
        if staged.table.qualified in anew:
            counted.run(delete, staged, count, "R")
    for staged, count in paired:
        counted.run(moves.move, staged, count, MOVE)
        kinds = ("I", "R") if staged.table.qualified in anew else ("I",)
        counted.run(insert, staged, count, *kinds)
    faults.point("write.after_insert")
    for staged, count in paired:
        kinds = ("U",) if staged.table.qualified in anew else ("U", "R")
        counted.run(update, staged, count, *kinds)
    faults.point("write.after_update")
    for staged, count in reversed(paired):
        if count.get(moves.LEFT):
            moves.refuse_followers(connection, staged, rows)
        known = () if staged.table.qualified in early else ("D",)
        counted.run(delete, staged, count, *known, moves.LEFT)


def replaced_anew(
    changes: Iterable[tuple[Staged, Mapping[str, int]]],
) -> set[QualifiedName]:
    """Tables whose rows of kind R are deleted and inserted; in others they are updated.

    Parameters:
        changes: the changes of one write, with the number of rows of each kind.
    """
    paired = _ordered(changes)
    return {name for name in _replaced(paired) if not _moves_below(paired, name)}


def _ordered(
    changes: Iterable[tuple[Staged, Mapping[str, int]]],
) -> list[tuple[Staged, Mapping[str, int]]]:
    paired = list(changes)
    order = parents_first([staged.table for staged, _ in paired])
    return sorted(paired, key=lambda p: order.index(p[0].table.qualified))


def _pass_all_on(
    connection: Connection,
    paired: Sequence[tuple[Staged, Mapping[str, int]]],
    rows: Mapping[str, Any],
    anew: set[QualifiedName],
) -> None:
    for staged, count in paired:
        if sum(count.values()) < 2:
            continue
        updated_too = () if staged.table.qualified in anew else ("R",)
        for unique in staged.breakable(at_once=True):
            pass_on(connection, staged, unique, rows, *UPDATES, *updated_too)
        if count.get(MOVE):
            moves.free_keys(connection, staged, rows)


def _replaced(
    paired: Sequence[tuple[Staged, Mapping[str, int]]],
) -> set[QualifiedName]:
    """Tables with changes of kind R: a row is deleted and inserted again."""
    return {staged.table.qualified for staged, count in paired if count.get("R")}


def _moves_below(
    paired: Sequence[tuple[Staged, Mapping[str, int]]], table: QualifiedName
) -> bool:
    """Whether the write updates rows that refer, or referred, to rows of a table.

    Rows of that table are then replaced in place: a delete would cascade to a child
    that moves to another parent, or be refused because of it.
    """
    below = _below(paired, {table})
    return any(
        c.get("U") or c.get(MOVE) for s, c in paired if s.table.qualified in below
    )


def _below(
    paired: Sequence[tuple[Staged, Mapping[str, int]]], tables: set[QualifiedName]
) -> set[QualifiedName]:
    """Tables that refer to some tables, directly or through others.

    If rows of the latter are deleted for a moment, rows that refer to them and are
    deleted for good have to be deleted before.
    """
    below: set[QualifiedName] = set()
    for staged, _ in paired:  # parents first, so one pass reaches grandchildren
        if any(f.parent in tables | below for f in staged.table.foreign_keys):
            below.add(staged.table.qualified)
    return below


class _InsertOverriding(postgresql.Insert):
    """An INSERT that may give values to identity columns GENERATED ALWAYS."""

    inherit_cache = True


@compiles(_InsertOverriding)
def _compile_overriding(element: Insert, compiler: Any, **kw: Any) -> str:
    rendered: str = compiler.visit_insert(element, **kw)
    return rendered.replace(") SELECT", ") OVERRIDING SYSTEM VALUE SELECT", 1)
