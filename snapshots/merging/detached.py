"""Keeps children in place while the value they refer to moves from one row to another.

The merge parks the value meanwhile, and where a foreign key acts (ON UPDATE CASCADE,
...), the children would follow it. So they refer to nothing until the value is in its
new row. Children that the master has not changed are written too, as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, exists, select
from sqlalchemy.sql.dml import Insert, Update

from sites.names import numbered
from sites.tables.table import Column
from sites.writing.staged import selected
from sites.writing.unique_values import free_value
from snapshots.merging import counts, obstacles, work
from snapshots.merging.work import Link, Work


def bring(connection: Connection, group: Sequence[Work]) -> None:
    """Add children that stay to the rows that are written, and lock them.

    A child that another session has locked is not added, and its parent is held back.
    """
    for link in work.following(group):
        free = counts.free_rows(connection, [link.parent])
        moves = free[link.parent.staged.table.qualified].keys() & {"U", "D"}
        if moves and obstacles.spot_of(link):
            connection.execute(_brought(link))


def detach(
    connection: Connection,
    group: Sequence[Work],
    changes: Work,
    rows: Mapping[str, Any],
) -> None:
    """Let some of the rows refer to nothing, before what they refer to is parked."""
    for link in work.following(group):
        spot = obstacles.spot_of(link)
        if link.child is changes and spot:
            connection.execute(_detached(link, spot, rows))


def _brought(link: Link) -> Insert:
    child = link.child.staged
    below, along = child.table.sql().alias("below"), child.source.alias("along")
    row = link.parent.staged.table.sql().alias("row")
    change = link.parent.table.alias("change")
    names = ["kind", *numbered("n", child.columns)]
    staying = (
        select(sa.literal_column("'U'"), *(below.c[name] for name in child.columns))
        .where(
            exists().where(
                obstacles.gives_up(link, row, change),
                obstacles.is_taken(link, row),
                obstacles.refers(link, below, row),
            ),
            ~exists().where(child.same_row(below, along)),
        )
        .with_for_update(of=below, key_share=True, skip_locked=True)
    )
    return sa.insert(child.source).from_select(names, staying)


def _detached(link: Link, spot: Column, rows: Mapping[str, Any]) -> Update:
    child = link.child.staged
    target, row = child.table.sql(), link.parent.staged.table.sql().alias("row")
    change = link.parent.table.alias("change")
    nothing: ColumnElement[Any] = sa.null()
    if not obstacles.takes_nulls(child, spot):
        nothing = free_value(spot, target.alias("others"), child.source.c.no)
    gone = exists().where(
        sa.not_(change.c.held),
        obstacles.gives_up(link, row, change),
        obstacles.is_taken(link, row),
        obstacles.refers(link, target, row),
    )
    return (
        sa.update(target)
        .values({target.c[spot.name]: nothing})
        .where(selected(child.source, rows), child.kind("U", "D"))
        .where(child.same_row(target), gone)
    )
