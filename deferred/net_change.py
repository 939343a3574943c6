"""The net change of a transaction: one change a row, whatever the steps were.

Call numbers do not order the steps of a row inside a transaction: nested
triggers are captured first, and a statement is a set. The images do: each
step's old image is another's new image. Counted as multisets, with "no row" as
an image too, the start is the old image left over when the new images are
taken away, and the end the new image left over when the old ones are. Where
none is left over, the row ended as it began; whether as absent or as one of its
images, the numbers suggest, and the master's row is allowed to be either.

Hence, for one key: insert and delete leave nothing (but the key must be absent
at the master, or be the inserted row), insert and update an insert, updates one
update, update and delete a delete with the first old image, delete and insert a
replacement.
One well-known manual calls update and delete "no operation"; that would leave
the row behind.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import CTE, ColumnElement, Select, Text, and_, case, cast, func, select

from deferred.queue import Queue
from sites.types import as_record

#: Kinds of net change; 'N' nothing, with the row that came and went; 'X' invalid.
KINDS = ("I", "U", "D", "R", "N", "X")


def columns_of(queue: Queue) -> list[str]:
    """The columns of a net change, in the order of `net_changes`."""
    count = range(1, len(queue.columns) + 1)
    return [
        "unit",
        "call_no",
        "kind",
        *(f"o{n}" for n in count),
        *(f"n{n}" for n in count),
    ]


def net_changes(
    queue: Queue, transactions: sa.FromClause, *, after: int | None = None
) -> Select[Any]:
    """The net change of each transaction in one queue, as rows to be shipped.

    Parameters:
        transactions: has `xid` and `order_no`; the latter becomes `unit`.
        after: only calls with a higher number than this one.

    Returns:
        unit, call_no, kind, o1, ..., n1, ... in the order of `columns_of`.
    """
    calls = _calls(queue, transactions, after)
    plain = select(
        calls.c.unit, calls.c.call_no, calls.c.kind, *_images(queue, calls)
    ).where(calls.c.steps == 1)
    folded = _folded(queue, calls)
    both = sa.union_all(plain, folded).subquery()
    return select(*(both.c[name] for name in columns_of(queue)))


def _calls(queue: Queue, transactions: sa.FromClause, after: int | None) -> CTE:
    call = queue.sql()
    keys = queue.keys(call)
    unit = transactions.c.order_no
    return (
        select(
            unit.label("unit"),
            call.c.call_no,
            cast(call.c.kind, Text).label("kind"),
            call.c.moved,
            *keys,
            *_images(queue, call),
            func.count()
            .over(partition_by=[unit, *(k.element for k in keys)])
            .label("steps"),
        )
        .join_from(call, transactions, transactions.c.xid == call.c.xid)
        .where(*([] if after is None else [call.c.call_no > after]))
        .cte("calls")
    )


def _folded(queue: Queue, calls: CTE) -> Select[Any]:
    """Rows that took more than one step, each reduced to its start and end."""
    rows, ends = _rows(queue, calls), _ends(queue, calls)
    start, end = calls.alias("start_call"), calls.alias("end_call")
    # What came and went is shown by its insert.
    end_no = func.coalesce(
        ends.c.end_no, case((ends.c.left_over.is_(None), rows.c.first_insert))
    )
    # As records: the type of a key may have an equality of its own.
    same = [
        rows.c.unit == ends.c.unit,
        *(as_record(rows.c[k]) == as_record(ends.c[k]) for k in _key_names(queue)),
    ]
    kind = _kind(queue, rows, ends, start, end)
    found = (
        select(
            rows.c.unit,
            func.coalesce(ends.c.end_no, rows.c.first_no).label("call_no"),
            kind.label("kind"),
            *(start.c[f"o{n}"] for n in range(1, len(queue.columns) + 1)),
            *(end.c[f"n{n}"] for n in range(1, len(queue.columns) + 1)),
            *(rows.c[name].label(f"row_{name}") for name in _key_names(queue)),
        )
        .select_from(rows.outerjoin(ends, and_(*same)))
        .outerjoin(start, start.c.call_no == ends.c.start_no)
        .outerjoin(end, end.c.call_no == end_no)
        .subquery()
    )
    return select(*(_shown(queue, found, name) for name in columns_of(queue))).where(
        found.c.kind.is_not(None)
    )


def _rows(queue: Queue, calls: CTE) -> sa.Subquery:
    """One row a key that took several steps."""
    keys = [calls.c[name] for name in ("unit", *_key_names(queue))]
    return (
        select(
            *keys,
            func.min(calls.c.call_no).label("first_no"),
            func.min(calls.c.call_no).filter(calls.c.kind == "I").label("first_insert"),
            func.bool_or(and_(calls.c.kind == "D", sa.not_(calls.c.moved))).label(
                "dropped"
            ),
        )
        .where(calls.c.steps > 1)
        .group_by(*keys)
        .subquery()
    )


def _ends(queue: Queue, calls: CTE) -> sa.Subquery:
    """Start and end of each such row: the images that are left over."""
    count = range(1, len(queue.columns) + 1)
    old = _image(calls, "I", [f"o{n}" for n in count])
    new = _image(calls, "D", [f"n{n}" for n in count])
    keys = [calls.c[name] for name in ("unit", *_key_names(queue))]
    steps = sa.union_all(
        select(*keys, calls.c.call_no, sa.literal(1).label("weight"), old).where(
            calls.c.steps > 1
        ),
        select(*keys, calls.c.call_no, sa.literal(-1).label("weight"), new).where(
            calls.c.steps > 1
        ),
    ).subquery()
    group = [steps.c[name] for name in ("unit", *_key_names(queue))]
    left = (
        select(
            *group,
            func.sum(steps.c.weight).label("weight"),
            func.min(steps.c.call_no).filter(steps.c.weight > 0).label("start_no"),
            func.min(steps.c.call_no).filter(steps.c.weight < 0).label("end_no"),
        )
        .group_by(*group, steps.c.image)
        .having(func.sum(steps.c.weight) != 0)
        .subquery()
    )
    by = [left.c[name] for name in ("unit", *_key_names(queue))]
    return (
        select(
            *by,
            func.max(left.c.start_no).filter(left.c.weight > 0).label("start_no"),
            func.max(left.c.end_no).filter(left.c.weight < 0).label("end_no"),
            func.sum(func.abs(left.c.weight)).label("left_over"),
        )
        .group_by(*by)
        .subquery()
    )


def _kind(
    queue: Queue, rows: sa.Subquery, ends: sa.Subquery, start: Any, end: Any
) -> ColumnElement[Any]:
    replaced = sa.false() if queue.partial else rows.c.dropped
    return case(
        (ends.c.left_over > 2, "X"),
        (and_(ends.c.left_over.is_(None), rows.c.first_insert == rows.c.first_no), "N"),
        (ends.c.left_over.is_(None), sa.null()),
        (start.c.kind == "I", "I"),
        (end.c.kind == "D", "D"),
        (replaced, "R"),
        else_="U",
    )


def _shown(queue: Queue, found: sa.Subquery, name: str) -> ColumnElement[Any]:
    """A column of a folded row; an invalid one still names its key."""
    for n, column in enumerate(queue.identity_columns, 1):
        if name == f"n{queue.columns.index(column) + 1}":
            kept = case((found.c.kind == "X", found.c[f"row_k{n}"]))
            return func.coalesce(found.c[name], kept).label(name)
    return found.c[name]


def _image(calls: CTE, absent: str, names: list[str]) -> ColumnElement[Any]:
    row = cast(func.row(*(calls.c[name] for name in names)), Text)
    return case((calls.c.kind != absent, row)).label("image")


def _images(queue: Queue, calls: Any) -> list[ColumnElement[Any]]:
    count = range(1, len(queue.columns) + 1)
    return [calls.c[f"{side}{n}"] for side in ("o", "n") for n in count]


def _key_names(queue: Queue) -> list[str]:
    return [f"k{n}" for n in range(1, len(queue.identity_columns) + 1)]
