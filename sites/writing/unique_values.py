"""Writing unique values that pass from one row to another within one write.

PostgreSQL checks each statement of a write by itself. So a value that one row gives up
and another takes is freed first: the row that has it is parked, which means that it
gets NULL or a free value for a moment. The builders here only build statements;
`sites.writing.write` runs them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from psycopg import sql
from sqlalchemy import ColumnElement, Connection, FromClause, TableClause, func
from sqlalchemy.sql.dml import Update

from sites.errors import NoFreeValue
from sites.sessions.exchange import raw
from sites.tables.table import Column, Table, Unique
from sites.writing.staged import UPDATES, Staged, selected, updated

#: The lowest and the highest number of each type.
_INTEGERS = {
    "smallint": (-(2**15), 2**15 - 1),
    "integer": (-(2**31), 2**31 - 1),
    "bigint": (-(2**63), 2**63 - 1),
}

#: Length from which a random text is taken to be unique.
_ENOUGH = 16

#: Shorter columns get a private-use character of Unicode: the first, and their number.
_PRIVATE, _PRIVATE_SIZE = 0xF0000, 0xFFFE


#: Distance between the free integers of two sessions.
_APART = 1_000_000
#: If the highest smallint is below this, there is room above it.
_SMALL_ROOM = 30_000


def check_at_once(connection: Connection, tables: Iterable[Table]) -> None:
    """Check deferrable unique keys after each statement from now on.

    For callers that defer all constraints, but have to find the rows in the way.

    Parameters:
        tables: at least one has such a key.
    """
    names = sql.SQL(", ").join(
        sql.Identifier(table.schema, unique.name)
        for table in tables
        for unique in table.uniques
        if unique.deferrable
    )
    raw(connection).execute(sql.SQL("SET CONSTRAINTS {} IMMEDIATE").format(names))


def pin(
    staged: Staged, unique: Unique, rows: Mapping[str, Any], *kinds: str
) -> Update | None:
    """Make an update restore the column that parking overwrites, changed or not.

    A row is parked in one column of a unique key, which its change may leave alone;
    then the update has to write the value that the target has now.

    Parameters:
        kinds: the kinds of changes that are written by an update.

    Returns:
        None if an update writes that column anyway.
    """
    if not staged.has_old or len(unique.columns) == 1:
        return None
    target = staged.table.sql()
    spot = parking_column(staged.table, unique, staged.identity)
    old, new, now = staged.old(spot.name), staged.new(spot.name), target.c[spot.name]
    another: ColumnElement[Any] = sa.null()
    if unique.nulls_not_distinct:
        free = free_value(spot, target, sa.literal_column("0"))
        another = sa.case((now.is_(None), free))
    statement = (
        sa.update(staged.source)
        .values({old: another, new: now})
        .where(selected(staged.source, rows), staged.kind(*kinds))
        .where(staged.same_row(target), spot.unchanged(old, new))
    )
    # A NULL that equals no other is never taken, and so its row is never parked.
    return statement if unique.nulls_not_distinct else statement.where(now.is_not(None))


def moved(
    staged: Staged, unique: Unique, target: TableClause, source: FromClause
) -> ColumnElement[bool]:
    """Whether an update gives its row another value of the unique key."""
    return sa.or_(
        *(
            updated(staged, target, name, source).is_distinct_from(target.c[name])
            for name in unique.columns
        )
    )


def park(
    staged: Staged,
    unique: Unique,
    rows: Mapping[str, Any],
    givers: Mapping[str, Any] | None = None,
) -> Update:
    """Free unique values that one row of the changes gives up and another takes.

    Parameters:
        rows: equalities that select the changes in the source (column -> value).
        givers: equalities for changes whose rows may be parked; None: those of `rows`.

    Raises:
        NoFreeValue: the unique key has no column for parking, or rows of other tables
            would follow the only such column to NULL.
    """
    target = staged.table.sql()
    spot = parking_column(staged.table, unique, staged.identity)
    held = passing(staged, unique, rows, givers).subquery("held")
    value: ColumnElement[Any] | None = sa.null()
    if unique.nulls_not_distinct or not spot.takes_null or spot.followed:
        if not has_free_values(spot):
            raise NoFreeValue(
                f"Unique key {unique.name} of {staged.table.qualified} cannot take a "
                f"temporary value: rows of other tables follow its column {spot.name}."
            )
        value = free_value(spot, target.alias("others"), held.c.place)
    keys = zip(staged.identity, held.c, strict=False)
    return (
        sa.update(target)
        .values({target.c[spot.name]: value})
        .where(*(target.c[name] == key for name, key in keys))
    )


def passing(
    staged: Staged,
    unique: Unique,
    rows: Mapping[str, Any],
    givers: Mapping[str, Any] | None = None,
) -> sa.Select[tuple[Any, ...]]:
    """The rows whose value another row takes: their identity, and a number."""
    target = staged.table.sql()
    giver, taker = staged.source.alias("giver"), staged.source.alias("taker")
    moves = moved(staged, unique, target, giver)
    keys = [target.c[name] for name in staged.identity]
    takers, wanted = _takers(staged, unique, taker)
    return (
        sa.select(
            *(key.label(f"k{number}") for number, key in enumerate(keys, 1)),
            func.row_number().over().label("place"),
        )
        .select_from(target, giver, takers)
        .where(selected(giver, givers or rows), selected(taker, rows))
        .where(staged.same_row(target, giver))
        .where(
            sa.or_(
                staged.kind("D", "R", "L", source=giver),
                sa.and_(staged.kind(*UPDATES, source=giver), moves),
            )
        )
        .where(staged.kind("I", *UPDATES, "R", source=taker))
        .where(*(unique.same(target.c[c], wanted[c]) for c in unique.columns))
        .where(sa.not_(staged.same_row(target, taker)))
        .group_by(*keys)
    )


def _takers(
    staged: Staged, unique: Unique, taker: FromClause
) -> tuple[FromClause, Mapping[str, ColumnElement[Any]]]:
    """The changes that take a value, and the values that its columns will hold.

    A change may leave a column of the key alone. If the target has another value there
    by now, that value stays.
    """
    new = {c: staged.new(c, taker) for c in unique.columns}
    if not staged.has_old or len(unique.columns) == 1:
        return taker, new
    theirs = staged.table.sql().alias("theirs")
    kept = {
        c: sa.and_(
            staged.kind(*UPDATES, source=taker),
            staged.table.column(c).unchanged(staged.old(c, taker), new[c]),
        )
        for c in unique.columns
    }
    wanted = {c: sa.case((kept[c], theirs.c[c]), else_=new[c]) for c in unique.columns}
    return taker.outerjoin(theirs, staged.same_row(theirs, taker)), wanted


def parking_column(table: Table, unique: Unique, identity: Sequence[str]) -> Column:
    """The column of a unique key that can be freed for a moment.

    Parameters:
        identity: the columns by which rows are found again; they are not used.

    Raises:
        NoFreeValue: no column has a type with free values, or can be NULL in a key for
            which two NULLs differ.
    """
    columns = [
        column
        for column in map(table.column, unique.columns)
        if column.name not in identity
        and not column.generated
        and column.identity != "a"
    ]
    may_be_null = [
        column
        for column in columns
        if column.takes_null and not unique.nulls_not_distinct
    ]
    # Rows that follow a column by ON UPDATE follow it back, but not from NULL.
    best_first = [
        *(column for column in may_be_null if not column.followed),
        *sorted(filter(has_free_values, columns), key=lambda column: column.followed),
        *may_be_null,
    ]
    if not best_first:
        raise NoFreeValue(
            f"Unique key {unique.name} of {table.qualified} cannot take a temporary "
            "value."
        )
    return best_first[0]


def free_value(
    column: Column, others: FromClause, place: ColumnElement[Any]
) -> ColumnElement[Any]:
    """A value that no row has, different for each place.

    Parameters:
        others: the rows of the table.
    """
    base = _base(column)
    if base in _INTEGERS:
        return _free_integer(base, others.c[column.name], place)
    if base == "uuid":
        return func.gen_random_uuid()
    length = _length(column)
    if length < _ENOUGH:
        number = _PRIVATE + func.mod(place, _PRIVATE_SIZE)
        return func.chr(sa.cast(number, sa.Integer))
    return func.left(func.md5(sa.cast(func.gen_random_uuid(), sa.Text)), length)


def _free_integer(
    base: str, others: ColumnElement[Any], place: ColumnElement[Any]
) -> ColumnElement[Any]:
    """A number below all existing ones; above, if all are positive, as a CHECK may ask.

    If the type ends on that side, a number on the other; if on both, in the widest gap.
    """
    lowest = sa.select(func.min(others)).scalar_subquery()
    highest = sa.select(func.max(others)).scalar_subquery()
    down = func.least(lowest, sa.literal_column("0"))
    up = func.greatest(highest, sa.literal_column("0"))
    first, last = (sa.literal_column(str(e), sa.Numeric) for e in _INTEGERS[base])
    ends = (down >= first + place, down - place), (up <= last - place, up + place)
    gap = _widest_gap(others) + place
    if base == "smallint":
        room = sa.literal_column(str(_SMALL_ROOM), sa.BigInteger)
        positive = sa.and_(lowest > 0, highest < room)
        return sa.case((positive, highest + place), *ends, else_=gap)
    # If there is room, each session that parks rows now has numbers of its own.
    own = (func.mod(func.pg_backend_pid(), 1000) + 1) * _APART
    room = sa.literal_column(str(_APART * 1000), sa.BigInteger)
    return sa.case(
        (sa.and_(lowest > 0, highest < room), highest + own + place),
        (down > -room, down - own - place),
        *ends,
        else_=gap,
    )


def _widest_gap(others: ColumnElement[Any]) -> ColumnElement[Any]:
    """The existing number that has the most free numbers above it."""
    wide = sa.cast(others, sa.Numeric)
    width = func.lead(wide).over(order_by=wide) - wide
    gaps = sa.select(others.label("below"), width.label("width")).subquery("gaps")
    widest = sa.select(gaps.c.below).order_by(gaps.c.width.desc().nulls_last())
    return widest.limit(1).scalar_subquery()


def has_free_values(column: Column) -> bool:
    types = (*_INTEGERS, "text", "character varying", "uuid")
    return _base(column) in types and not column.checked


def _base(column: Column) -> str:
    return column.recorded.partition("(")[0]


def _length(column: Column) -> int:
    _, _, size = column.recorded.partition("(")
    return min(int(size.rstrip(")")), 32) if size else 32
