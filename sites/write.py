"""Writing staged changes to a table, set by set, in an order that constraints allow.

One source table holds the changes: `kind` (I insert, U update, D delete, R delete
and insert of one key), `n1`.. the new and, where there are any, `o1`.. the old
values. Unique values that move or go are parked first; then rows are inserted
(parents first), updated, and last deleted, children first: a delete before the
update would cascade to the child that moved away.

The builders only build; `write` executes. Used by the apply at a master and the
merge at a snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    TableClause,
    and_,
    case,
    func,
    or_,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.dml import Delete, Insert, Update

from sites import faults
from sites.errors import NoFreeValue, RowCountMismatch
from sites.names import QualifiedName
from sites.table import Column, Table, Unique


@dataclass(frozen=True, kw_only=True)
class Staged:
    """Changes for one table, staged in a source table of the same database."""

    table: Table
    source: TableClause
    #: the columns carried, in the order in which the source numbers them
    columns: tuple[str, ...]
    #: the columns that identify a row, among `columns`
    identity: tuple[str, ...]
    #: the source has old values; an update then writes only what it changed
    has_old: bool = True

    def new(self, column: str, source: FromClause | None = None) -> ColumnElement[Any]:
        """The new value of a column, in the source table or an alias of it."""
        return self._value("n", column, source)

    def old(self, column: str, source: FromClause | None = None) -> ColumnElement[Any]:
        """The old value of a column, in the source table or an alias of it."""
        return self._value("o", column, source)

    def key(self, column: str, source: FromClause | None = None) -> ColumnElement[Any]:
        """The value that identifies the row, whatever the kind of change."""
        if not self.has_old:
            return self.new(column, source)
        return func.coalesce(self.old(column, source), self.new(column, source))

    def same_row(
        self, target: FromClause, source: FromClause | None = None
    ) -> ColumnElement[bool]:
        """Whether a change is about this row of the target."""
        return and_(
            *(target.c[name] == self.key(name, source) for name in self.identity)
        )

    def kind(
        self, *kinds: str, source: FromClause | None = None
    ) -> ColumnElement[bool]:
        """Whether a change is of one of these kinds."""
        return (self.source if source is None else source).c.kind.in_(kinds)

    def _value(
        self, side: str, column: str, source: FromClause | None
    ) -> ColumnElement[Any]:
        table = self.source if source is None else source
        return table.c[f"{side}{self.columns.index(column) + 1}"]


def parents_first(tables: Sequence[Table]) -> list[QualifiedName]:
    """Order tables so that what is referred to comes first; cycles keep their order."""
    waiting = {
        t.qualified: {f.parent for f in t.foreign_keys} - {t.qualified} for t in tables
    }
    ordered: list[QualifiedName] = []
    while waiting:
        free = [
            name for name, parents in waiting.items() if not parents & waiting.keys()
        ]
        for name in free or [next(iter(waiting))]:
            ordered.append(name)
            del waiting[name]
    return ordered


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
            _updated(staged, target, c, giver).is_distinct_from(target.c[c])
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


def insert(
    staged: Staged, rows: Mapping[str, Any], *kinds: str, skip_existing: bool = False
) -> Insert:
    """Insert the new rows of the given kinds.

    Parameters:
        skip_existing: leave out rows whose key or unique value is there already.
    """
    target = staged.table.sql()
    values = sa.select(*(staged.new(c) for c in staged.columns)).where(
        selected(staged.source, rows), staged.kind(*kinds)
    )
    always = any(staged.table.column(c).identity == "a" for c in staged.columns)
    statement = _InsertOverriding(target) if always else postgresql.insert(target)
    inserted = statement.from_select(list(staged.columns), values)
    return inserted.on_conflict_do_nothing() if skip_existing else inserted


def update(staged: Staged, rows: Mapping[str, Any], *kinds: str) -> Update:
    """Update rows in place; what a change left alone keeps the target's value.

    Parameters:
        kinds: 'U', and 'R' where a replaced row has to stay.
    """
    target = staged.table.sql()
    columns = [staged.table.column(name) for name in staged.columns]
    values = {
        target.c[column.name]: _updated(staged, target, column.name)
        for column in columns
        # Equal keys may yet differ; to name a key takes a stronger lock, though.
        if column.identity != "a"
        and (column.name not in staged.identity or not column.exact)
    }
    # A table whose columns are all key still has to be touched: the caller counts.
    first = target.c[staged.identity[0]]
    return (
        sa.update(target)
        .values(values or {first: first})
        .where(
            selected(staged.source, rows),
            staged.kind(*(kinds or ("U",))),
            staged.same_row(target),
        )
    )


def delete(staged: Staged, rows: Mapping[str, Any], *kinds: str) -> Delete:
    """Delete the rows of the given kinds."""
    target = staged.table.sql()
    return sa.delete(target).where(
        selected(staged.source, rows), staged.kind(*kinds), staged.same_row(target)
    )


def write(
    connection: Connection,
    changes: Sequence[Staged],
    counts: Sequence[Mapping[str, int]],
    rows: Mapping[str, Any],
) -> None:
    """Write changes to all their tables; each statement must meet its rows exactly.

    Parameters:
        counts: for each of `changes`, how many rows there are of each kind.
        rows: equalities that select the changes in each source.

    Raises:
        RowCountMismatch: a statement touched more or fewer rows than it should.
    """
    order = parents_first([staged.table for staged in changes])
    paired = sorted(
        zip(changes, counts, strict=True),
        key=lambda p: order.index(p[0].table.qualified),
    )
    _park_all(connection, paired, rows)
    faults.point("write.after_park")
    anew = {name for name in _replaced(paired) if not _moves_below(paired, name)}
    early = _below(paired, anew)
    for staged, count in reversed(paired):
        if staged.table.qualified in early:
            _expect(connection, delete(staged, rows, "D"), staged, count, "D")
        if staged.table.qualified in anew:
            _expect(connection, delete(staged, rows, "R"), staged, count, "R")
    for staged, count in paired:
        kinds = ("I", "R") if staged.table.qualified in anew else ("I",)
        _expect(connection, insert(staged, rows, *kinds), staged, count, *kinds)
    faults.point("write.after_insert")
    for staged, count in paired:
        kinds = ("U",) if staged.table.qualified in anew else ("U", "R")
        _expect(connection, update(staged, rows, *kinds), staged, count, *kinds)
    faults.point("write.after_update")
    for staged, count in reversed(paired):
        if staged.table.qualified not in early:
            _expect(connection, delete(staged, rows, "D"), staged, count, "D")


def selected(source: FromClause, rows: Mapping[str, Any]) -> ColumnElement[bool]:
    """The rows of a source whose columns have these values, or lie in these ranges."""
    wanted = (_is(source.c[name], value) for name, value in rows.items())
    return and_(sa.true(), *wanted)


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


def _is(column: ColumnElement[Any], value: object) -> ColumnElement[bool]:
    if isinstance(value, range):
        return column.between(value.start, value.stop - 1)
    return column == value


def _updated(
    staged: Staged, target: TableClause, name: str, source: FromClause | None = None
) -> ColumnElement[Any]:
    """What an update leaves in a column: the new value, if the change has one."""
    new = staged.new(name, source)
    if not staged.has_old:
        return new
    unchanged = staged.table.column(name).unchanged(staged.old(name, source), new)
    return case((unchanged, target.c[name]), else_=new)


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


def _park_all(
    connection: Connection,
    paired: Sequence[tuple[Staged, Mapping[str, int]]],
    rows: Mapping[str, Any],
) -> None:
    for staged, count in paired:
        if sum(count.values()) < 2:
            continue
        for unique in movable(staged):
            pinned = pin(staged, unique, rows)
            if pinned is not None:
                connection.execute(pinned)
            connection.execute(park(staged, unique, rows))


def _replaced(
    paired: Sequence[tuple[Staged, Mapping[str, int]]],
) -> set[QualifiedName]:
    """Tables in which a row is deleted and inserted again."""
    return {staged.table.qualified for staged, count in paired if count.get("R")}


def _moves_below(
    paired: Sequence[tuple[Staged, Mapping[str, int]]], table: QualifiedName
) -> bool:
    """Whether rows are updated that may refer to rows of a table, or did so.

    Its rows then are replaced in place: a delete would cascade to the child that
    moves away, or be refused for its sake.
    """
    below = _below(paired, {table})
    return any(c.get("U") for s, c in paired if s.table.qualified in below)


def _below(
    paired: Sequence[tuple[Staged, Mapping[str, int]]], tables: set[QualifiedName]
) -> set[QualifiedName]:
    """Tables that refer to some tables, directly or through others.

    Where rows of those go for a moment, rows that refer to them and go for good
    have to go before.
    """
    below: set[QualifiedName] = set()
    for staged, _ in paired:  # parents first, so one pass reaches grandchildren
        if any(f.parent in tables | below for f in staged.table.foreign_keys):
            below.add(staged.table.qualified)
    return below


def _expect(
    connection: Connection,
    statement: Insert | Update | Delete,
    staged: Staged,
    count: Mapping[str, int],
    *kinds: str,
) -> None:
    expected = sum(count.get(kind, 0) for kind in kinds)
    if not expected:
        return
    touched = connection.execute(statement).rowcount
    if touched != expected:
        raise RowCountMismatch(
            f"{type(statement).__name__} on {staged.table.qualified} touched {touched}"
            f" rows where {expected} were compared.",
            table=str(staged.table.qualified),
        )


class _InsertOverriding(postgresql.Insert):
    """An INSERT that may give values to identity columns GENERATED ALWAYS."""

    inherit_cache = True


@compiles(_InsertOverriding)
def _compile_overriding(element: Insert, compiler: Any, **kw: Any) -> str:
    rendered: str = compiler.visit_insert(element, **kw)
    return rendered.replace(") SELECT", ") OVERRIDING SYSTEM VALUE SELECT", 1)
