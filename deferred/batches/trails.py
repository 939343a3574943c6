"""Following rows whose key a transaction changes, through all their keys.

A row that keeps its key is known by it. A row whose key changes is followed from image
to image: the new image of a call is the old image of the row's next call. If two rows
had the same values one after the other, the numbers of the calls decide.

Hence a change of key from a to b and one from b to c are one from a to c, a delete
after a change of key is the delete of the first key, and an insert before one is the
insert of the last key. An insert at a key that was left makes another row.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, FromClause, Select, Subquery, func, select

from deferred.batches.succession import image
from deferred.queues.queue import Queue
from sites.writing.staged import MOVE


def calls_on(queue: Queue, calls: sa.CTE) -> sa.CTE:
    """The numbers of calls whose keys, old or new, are part of a change of key.

    Usually there are none, and the query asks nothing else.
    """
    moves = calls.c.kind == MOVE
    among = select(calls.c.tran).where(moves).distinct().cte("moving")
    mine = [_any(among), calls.c.tran.in_(select(among.c.tran))]
    keys = range(1, len(queue.identity_columns) + 1)
    old = [calls.c[f"k{n}"] for n in keys]
    new = [calls.c[name].label(f"k{n}") for n, name in enumerate(_keys(queue, "n"), 1)]
    each = sa.union_all(
        select(calls.c.call_no, calls.c.tran, moves.label("moves"), *old).where(*mine),
        select(calls.c.call_no, calls.c.tran, moves, *new).where(*mine, moves),
    ).subquery()
    row = [each.c.tran, *(each.c[f"k{n}"] for n in keys)]
    moved = func.bool_or(each.c.moves).over(partition_by=row).label("moved")
    found = select(each.c.call_no, moved).subquery()
    return select(found.c.call_no).where(found.c.moved).distinct().cte("on_trails")


def followed(queue: Queue, calls: sa.CTE, among: sa.CTE) -> Select[Any]:
    """The net changes of the rows that the given calls change.

    Parameters:
        calls: tran, call_no, kind, the keys, o1, ... and n1, ... of each.
        among: the numbers of those calls.

    Returns:
        The same columns, without rows that end as they began.
    """
    same = calls.c.call_no == among.c.call_no
    mine = select(calls).join(among, same).where(_any(among)).cte("trailing")
    ends = _ends(mine, _next(queue, mine))
    start, end = mine.alias("trail_start"), mine.alias("trail_end")
    came_and_went = sa.and_(start.c.kind == "I", end.c.kind == "D")
    numbers = range(1, len(queue.columns) + 1)
    found = (
        select(
            start.c.tran,
            end.c.call_no,
            _kind(queue, ends, start, end).label("kind"),
            *(start.c[f"o{n}"] for n in numbers),
            # A row that was inserted and deleted is shown by its insert.
            *(
                sa.case((came_and_went, start.c[f"n{n}"]), else_=end.c[f"n{n}"]).label(
                    f"n{n}"
                )
                for n in numbers
            ),
        )
        .select_from(ends)
        .join(start, start.c.call_no == ends.c.first_no)
        .join(end, end.c.call_no == ends.c.last_no)
        .subquery()
    )
    return select(
        *(found.c[name] for name in ("tran", "call_no", "kind")),
        *queue.keys(found),
        *(found.c[f"{side}{n}"] for side in "on" for n in numbers),
    ).where(found.c.kind.is_not(None))


def _any(among: sa.CTE) -> ColumnElement[bool]:
    """Whether there are any: asked once, so that the rest can be skipped if not."""
    return select(sa.literal(1)).select_from(among).correlate(None).exists()


def _keys(queue: Queue, side: str) -> list[str]:
    return [f"{side}{queue.columns.index(c) + 1}" for c in queue.identity_columns]


def _next(queue: Queue, mine: sa.CTE) -> sa.CTE:
    """Which call starts from the image that another one left: call_no and next_no.

    For each image, the first call that starts from it follows the first call that ends
    with it. But it belongs to a row that was there before, if more calls start from the
    image than end with it, or as many and the first of all takes its row from its key.
    """
    leaves = mine.c.kind.in_(("D", MOVE))
    sides = sa.union_all(
        _side(queue, mine, "o", leaves).where(mine.c.kind != "I"),
        _side(queue, mine, "n", sa.false()).where(mine.c.kind != "D"),
    ).subquery()
    same: dict[str, Any] = {"partition_by": [sides.c.tran, sides.c.image]}
    place = func.row_number().over(
        partition_by=[*same["partition_by"], sides.c.side], order_by=sides.c.call_no
    )
    more = func.sum(sa.case((sides.c.side == "o", 1), else_=-1)).over(**same)
    first = func.first_value(sides.c.leaves).over(**same, order_by=sides.c.call_no)
    ranked = select(
        *sides.c, place.label("place"), more.label("more"), first.label("left_first")
    ).cte("ranked")
    came, left = ranked.alias("came"), ranked.alias("left")
    was_there = sa.or_(came.c.more > 0, sa.and_(came.c.more == 0, came.c.left_first))
    return (
        select(came.c.call_no, left.c.call_no.label("next_no"))
        .join_from(
            came,
            left,
            sa.and_(
                came.c.tran == left.c.tran,
                came.c.image == left.c.image,
                came.c.place + sa.case((was_there, 1), else_=0) == left.c.place,
            ),
        )
        .where(came.c.side == "n", left.c.side == "o")
        .cte("follow")
    )


def _side(
    queue: Queue, mine: sa.CTE, side: str, leaves: ColumnElement[bool]
) -> Select[Any]:
    """One image of each call, and whether the call takes the row from its key."""
    names = [f"{side}{n}" for n in range(1, len(queue.columns) + 1)]
    return select(
        mine.c.tran,
        mine.c.call_no,
        sa.literal(side).label("side"),
        leaves.label("leaves"),
        image(mine, names).label("image"),
    )


def _ends(mine: sa.CTE, follow: sa.CTE) -> Subquery:
    """One line for each row: its first and last call, and whether its key changed."""
    came_from = select(follow.c.next_no).where(follow.c.next_no == mine.c.call_no)
    trail = (
        select(mine.c.call_no.label("first_no"), mine.c.call_no, mine.c.kind)
        .where(sa.not_(came_from.exists()))
        .cte("trail", recursive=True)
    )
    trail = trail.union_all(
        select(trail.c.first_no, follow.c.next_no, mine.c.kind)
        .join_from(trail, follow, follow.c.call_no == trail.c.call_no)
        .join(mine, mine.c.call_no == follow.c.next_no)
    )
    on = trail.outerjoin(follow, follow.c.call_no == trail.c.call_no)
    return (
        select(
            trail.c.first_no,
            func.max(trail.c.call_no)
            .filter(follow.c.next_no.is_(None))
            .label("last_no"),
            func.bool_or(trail.c.kind == MOVE).label("moved"),
        )
        .select_from(on)
        .group_by(trail.c.first_no)
        .subquery()
    )


def _kind(
    queue: Queue, ends: Subquery, start: FromClause, end: FromClause
) -> ColumnElement[Any]:
    """The kind of a row's net change; invalid if two rows begin or end at one key."""
    names = [f"{side}{n}" for side in "on" for n in range(1, len(queue.columns) + 1)]
    half = len(queue.columns)
    old, new = image(start, names[:half], "I"), image(end, names[half:], "D")
    twice = sa.or_(
        sa.and_(start.c.kind != "I", _times(start, _keys(queue, "o")) > 1),
        sa.and_(end.c.kind != "D", _times(end, _keys(queue, "n")) > 1),
    )
    return sa.case(
        (twice, "X"),
        (sa.and_(start.c.kind == "I", end.c.kind == "D"), "N"),
        (start.c.kind == "I", "I"),
        (end.c.kind == "D", "D"),
        (old == new, sa.null()),
        (sa.and_(ends.c.moved, _keys_differ(queue, start, end)), MOVE),
        else_="U",
    )


def _times(source: FromClause, key: list[str]) -> ColumnElement[int]:
    values = [source.c[name] for name in key]
    return func.count(values[0]).over(partition_by=[source.c.tran, *values])


def _keys_differ(
    queue: Queue, start: FromClause, end: FromClause
) -> ColumnElement[bool]:
    old, new = (
        image(source, _keys(queue, side)) for source, side in ((start, "o"), (end, "n"))
    )
    return old != new
