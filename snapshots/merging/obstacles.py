"""Conditions under which other rows stand in the way of rows that a merge writes.

They concern unique values, rows that are referred to, and rows that refer to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, FromClause, and_, exists, or_, select

from sites.tables.table import Column, Unique
from sites.writing import unique_values
from sites.writing.staged import Staged
from snapshots.merging.work import Link, Work


def violations(link: Link) -> list[tuple[Work, ColumnElement[bool]]]:
    """Written rows that violate a foreign key: children, or deleted parents."""
    child, parent, key = link.child, link.parent, link.key
    there, below = parent.staged.table.sql(), child.staged.table.sql()
    mine = [child.staged.new(name) for name in key.columns]
    orphan = and_(
        child.table.c.kind.in_(("I", "U")),
        *(v.is_not(None) for v in mine),
        ~exists().where(
            *(there.c[p] == v for p, v in zip(key.parent_columns, mine, strict=True))
        ),
    )
    found = [(child, orphan)]
    if set(key.parent_columns) <= set(parent.staged.identity):
        gone = [parent.staged.new(name) for name in key.parent_columns]
        referred = exists().where(
            *(below.c[c] == v for c, v in zip(key.columns, gone, strict=True))
        )
        found.append((parent, and_(parent.table.c.kind == "D", referred)))
    return found


def lacks_parent(link: Link) -> ColumnElement[bool]:
    """The row refers to a parent that will not be there."""
    changes, parent, key = link.child, link.parent, link.key
    mine = [changes.staged.new(name) for name in key.columns]
    present = parent.staged.table.sql().alias("present")
    leaving, coming = parent.table.alias("leaving"), parent.table.alias("coming")
    stays = exists().where(
        *(present.c[p] == v for p, v in zip(key.parent_columns, mine, strict=True)),
        ~exists().where(_gives_up(parent, leaving, present, key.parent_columns)),
    )
    theirs = [parent.staged.new(name, coming) for name in key.parent_columns]
    arrives = and_(sa.not_(coming.c.held), coming.c.kind.in_(("I", "U")))
    return and_(
        changes.table.c.kind.in_(("I", "U")),
        *(v.is_not(None) for v in mine),
        sa.not_(stays),
        _among_none_of(mine, theirs, arrives),
    )


def _among_none_of(
    mine: Sequence[ColumnElement[Any]],
    theirs: Sequence[ColumnElement[Any]],
    condition: ColumnElement[bool],
) -> ColumnElement[bool]:
    """Whether the values of a row are those of no row of another work table.

    PostgreSQL expects that every parent is there already, so that next to no row is
    left to look for among those that come. It would look through all of them for each
    row, if it were asked by NOT EXISTS. NOT IN is looked up in a hash table; but it
    cannot name the operator of a type that is not PostgreSQL's own.

    Parameters:
        mine: the row's values; the caller makes sure that none is NULL.
    """
    if any(getattr(v.type, "equality", None) for v in (*mine, *theirs)):
        same = (a == b for a, b in zip(theirs, mine, strict=True))
        return ~exists().where(condition, *same)
    known = (v.is_not(None) for v in theirs)
    return sa.tuple_(*mine).not_in(select(*theirs).where(condition, *known))


def has_locked_parent(link: Link) -> ColumnElement[bool]:
    """The row begins to refer to an existing parent that another session has locked."""
    changes, key = link.child, link.key
    parent = link.parent.staged.table.sql().alias("parent")
    row = changes.staged.table.sql().alias("row")
    refers = [
        parent.c[p] == changes.staged.new(c)
        for p, c in zip(key.parent_columns, key.columns, strict=True)
    ]
    same = [row.c[c] == changes.staged.new(c) for c in key.columns]
    unchanged = exists().where(changes.staged.same_row(row), *same)
    begins = and_(
        changes.free, changes.table.c.kind.in_(("I", "U")), sa.not_(unchanged)
    )
    locked = (
        select(changes.table.c.no)
        .join_from(changes.table, parent, and_(*refers))
        .where(begins)
        .order_by(*(parent.c[p] for p in key.parent_columns))
        .with_for_update(of=parent, read=True, key_share=True, skip_locked=True)
        .cte("locked")
    )
    return and_(
        changes.table.c.kind.in_(("I", "U")),
        sa.not_(unchanged),
        exists().where(*refers),
        among_none(locked, changes),
    )


def has_children(link: Link) -> ColumnElement[bool]:
    """The row is deleted, or changes values that children refer to, and a child stays.

    Unless another row takes the values: children refer to that one then. If they
    would follow the row instead, all of them must be detached while it is parked.
    """
    changes = link.parent
    row = changes.staged.table.sql().alias("row")
    replaced = is_taken(link, row)
    if link.follows:
        replaced = and_(replaced, sa.not_(_stays(link, row, attached=True)))
    return and_(
        changes.table.c.kind.in_(("D", "U")),
        exists().where(
            gives_up(link, row, changes.table), _stays(link, row), sa.not_(replaced)
        ),
    )


def spot_of(link: Link) -> Column | None:
    """The column in which a child can refer to nothing for a moment, if there is one.

    A column that takes NULL is best; else one with a value that no parent has.
    """
    child = link.child.staged
    columns = [
        column
        for column in map(child.table.column, link.key.columns)
        if column.name in child.columns
        and column.name not in child.identity
        and not column.generated
        and column.identity != "a"
    ]
    free = [column for column in columns if takes_nulls(child, column)]
    free += filter(unique_values.has_free_values, columns)
    return free[0] if free else None


def takes_nulls(staged: Staged, column: Column) -> bool:
    """Whether a column takes NULL in any row, also if another row has it there."""
    return column.takes_null and not any(
        unique.nulls_not_distinct and column.name in unique.columns
        for unique in staged.table.uniques
    )


def refers(link: Link, child: FromClause, row: FromClause) -> ColumnElement[bool]:
    """A child refers to a row of the parent, as both are now."""
    key = link.key
    return and_(
        *(
            child.c[c] == row.c[p]
            for c, p in zip(key.columns, key.parent_columns, strict=True)
        )
    )


def gives_up(link: Link, row: FromClause, change: FromClause) -> ColumnElement[bool]:
    """A change takes away from a row the values that children refer to."""
    staged = link.parent.staged
    moved = or_(
        *(
            staged.new(name, change).is_distinct_from(row.c[name])
            for name in link.key.parent_columns
        )
    )
    goes = or_(change.c.kind == "D", and_(change.c.kind == "U", moved))
    return and_(staged.same_row(row, change), goes)


def is_taken(link: Link, row: FromClause) -> ColumnElement[bool]:
    """Another row takes the values that children of a row refer to."""
    staged = link.parent.staged
    taker = link.parent.table.alias("taker")
    return exists().where(
        sa.not_(taker.c.held),
        taker.c.kind.in_(("I", "U")),
        *(staged.new(p, taker) == row.c[p] for p in link.key.parent_columns),
    )


def _stays(
    link: Link, row: FromClause, *, attached: bool = False
) -> ColumnElement[bool]:
    """A child goes on referring to a row of the parent.

    Parameters:
        attached: count only a child that cannot refer to nothing meanwhile.
    """
    child = link.child
    below = child.staged.table.sql().alias("below")
    leaving = child.table.alias("leaving")
    if not attached:
        leaves = _gives_up(child, leaving, below, link.key.columns)
    elif spot_of(link) is None:
        leaves = sa.false()
    else:
        written = leaving.c.kind.in_(("D", "U"))
        same = child.staged.same_row(below, leaving)
        leaves = and_(sa.not_(leaving.c.held), same, written)
    return exists().where(refers(link, below, row), ~exists().where(leaves))


def value_is_taken(changes: Work, unique: Unique) -> ColumnElement[bool]:
    """Another row has the unique value that this one wants, and keeps it."""
    holder = changes.staged.table.sql().alias("holder")
    giver = changes.table.alias("giver")
    wanted = [unique.same(holder.c[n], changes.staged.new(n)) for n in unique.columns]
    gives = _gives_up(changes, giver, holder, unique.columns)
    return and_(
        changes.table.c.kind.in_(("I", "U")),
        exists().where(
            *wanted, sa.not_(changes.staged.same_row(holder)), ~exists().where(gives)
        ),
    )


def _gives_up(
    changes: Work, giver: FromClause, holder: FromClause, columns: Sequence[str]
) -> ColumnElement[bool]:
    """A free change takes these values away from the row that has them."""
    moved = or_(
        *(changes.staged.new(n, giver).is_distinct_from(holder.c[n]) for n in columns)
    )
    return and_(
        sa.not_(giver.c.held),
        changes.staged.same_row(holder, giver),
        or_(giver.c.kind == "D", and_(giver.c.kind == "U", moved)),
    )


def among_none(locked: sa.CTE, changes: Work) -> ColumnElement[bool]:
    """Whether a row is not among those that a query has locked.

    PostgreSQL does not know how many these are, and would look through all of them for
    each row if it were asked by NOT EXISTS.
    """
    return changes.table.c.no.not_in(select(locked.c.no))
