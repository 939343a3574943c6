"""Foreign keys between the rows of one transaction, as they are staged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import BigInteger, ColumnElement, Connection, FromClause, and_, or_

from sites.tables.table import ForeignKey
from sites.writing.staged import Staged

#: Changes after which there is no row.
GONE = ("D", "N", "A")


@dataclass(frozen=True, kw_only=True)
class Link:
    """A foreign key from one staged table to another, or to itself."""

    parent: Staged
    child: Staged
    key: ForeignKey


def following(
    connection: Connection, tables: Sequence[Staged], unit: int, call_nos: Sequence[int]
) -> set[int]:
    """Calls whose rows refer to what some calls write, directly or through others."""
    found, new = set[int](), set(call_nos)
    while new:
        reached = set[int]()
        for link in links(tables):
            child = link.child.source.alias("child")
            parent = link.parent.source.alias("parent")
            wanted = (
                sa.select(child.c.call_no)
                .select_from(child.join(parent, refers(link, child, parent)))
                .where(child.c.unit == unit, parent.c.unit == unit)
                .where(
                    parent.c.call_no == any_of(sorted(new)),
                    gives(link.parent, link.key.parent_columns, parent),
                )
            )
            reached.update(connection.scalars(wanted))
        new = reached - found - set(call_nos)
        found |= new
    return found


def links(tables: Sequence[Staged]) -> Iterator[Link]:
    """The foreign keys between staged tables, if their columns are staged."""
    for child in tables:
        for key in child.table.foreign_keys:
            for parent in tables:
                if (
                    key.parent == parent.table.qualified
                    and set(key.parent_columns) <= set(parent.columns)
                    and set(key.columns) <= set(child.columns)
                ):
                    yield Link(parent=parent, child=child, key=key)


def refers(link: Link, child: FromClause, parent: FromClause) -> ColumnElement[bool]:
    """Whether the new values of one staged row refer to those of another."""
    own, its = link.key.columns, link.key.parent_columns
    return and_(
        gives(link.child, own, child),
        *(
            link.child.new(here, child) == link.parent.new(there, parent)
            for here, there in zip(own, its, strict=True)
        ),
    )


def gives(
    staged: Staged, columns: Sequence[str], source: FromClause
) -> ColumnElement[bool]:
    """Whether a call sets the values of some columns, by insert or by change."""
    same = [
        staged.table.column(name).unchanged(
            staged.old(name, source), staged.new(name, source)
        )
        for name in columns
    ]
    here = sa.not_(staged.kind(*GONE, source=source))
    return and_(here, or_(staged.kind("I", "R", source=source), sa.not_(and_(*same))))


def any_of(call_nos: Sequence[int]) -> ColumnElement[Any]:
    """Any of these call numbers, as one value."""
    return sa.func.any(sa.literal(list(call_nos), sa.ARRAY(BigInteger)))
