"""The net change of a transaction: one change for each row, whatever the steps were.

Call numbers do not order the steps of a row inside a transaction: nested
triggers are captured first, and a statement is a set. The images do: each
step's old image is another's new image. Counted as multisets, with "no row" as
an image too, the start is the old image left over when the new images are
taken away, and the end the new image left over when the old ones are. If none is left
over, the row ended as it began, either absent or as one of its images; the call numbers
suggest which, and the master's row is allowed to be either.

Hence, for one key: insert and delete leave nothing (but the key must be absent
at the master, or be the inserted row), insert and update an insert, updates one
update, update and delete a delete with the first old image, delete and insert a
replacement.
One well-known manual calls update and delete "no operation"; that would leave
the row at the master.

Besides I, U and D there are the kinds M, an update that changes the key; R, a delete
and an insert of one key; N, nothing, with the row that was inserted and deleted; and X,
which is invalid. Several transactions have A, too: the key was and is absent; and S:
the row is as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Select, Subquery, Text, func, select

from deferred.batches import procedure_call, succession, trails
from deferred.queues.queue import Queue, changes_key
from sites.sessions import settings
from sites.writing.staged import MOVE


def columns_of(queue: Queue) -> list[str]:
    """The columns of a net change, in the order of `net_changes`.

    unit selects the changes that are applied together; tran is the order number of
    the first transaction that changed the row, or for an invalid change of the one
    that does not follow; several says that there were more.
    """
    images = [f"{side}{n}" for side in ("o", "n") for n in _numbers(queue)]
    return ["unit", "tran", "several", "call_no", "kind", *images]


def net_changes(
    queue: Queue,
    transactions: sa.FromClause,
    group: int | ColumnElement[int] | None = None,
    *,
    after: int | None = None,
    single: bool = False,
    among: Callable[[ColumnElement[Any]], ColumnElement[bool]] | None = None,
) -> Select[Any]:
    """The net changes of transactions in one queue, as rows to be shipped.

    Parameters:
        transactions: has `xid` and `order_no`; with `after` too, its rows are steps
            (`procedure_call.steps`), each a unit of its own; with `calls`, the most
            calls that a transaction can have.
        group: the unit of all of them together; without it each transaction is a
            unit by itself, named by its order number.
        after: only calls with a higher number than this one.
        single: each has one call, which is its net change.
        among: makes of the id of a call's transaction a condition by which an index
            finds the calls of all the transactions, and perhaps of others; without it,
            the list of their ids does.

    Returns:
        The columns that `columns_of` names.
    """
    calls = _calls(queue, transactions, after, among)
    nets = _as_made(queue, calls) if single else _nets(queue, calls)
    unit: ColumnElement[Any]
    several: ColumnElement[Any]
    if group is None:
        each = nets.subquery()
        unit, several = each.c.tran, sa.false()
    else:
        each = succession.folded(
            nets.cte("nets"),
            keys=key_names(queue),
            columns=len(queue.columns),
            partial=queue.partial,
        )
        unit, several = _number(group), each.c.several
    return select(
        unit.label("unit"),
        each.c.tran,
        several.label("several"),
        each.c.call_no,
        each.c.kind,
        *_images(queue, each),
    )


def _number(value: int | ColumnElement[int]) -> ColumnElement[int]:
    return sa.literal(value, sa.BigInteger) if isinstance(value, int) else value


#: Select it to make PostgreSQL join as for many calls in the rest of the transaction.
#: New rows are not analysed yet; with plans for a few rows, a fold would compare each
#: step with every other one.
EXPECTING_MANY = (
    func.set_config("enable_nestloop", "off", True),
    settings.raise_work_mem(),
)


def key_names(queue: Queue) -> list[str]:
    """The names of the columns that identify a call's row: k1, k2, ..."""
    return [f"k{n}" for n in range(1, len(queue.identity_columns) + 1)]


def _calls(
    queue: Queue,
    transactions: sa.FromClause,
    after: int | None,
    among: Callable[[ColumnElement[Any]], ColumnElement[bool]] | None,
) -> sa.CTE:
    """The calls of the transactions, read again at each use.

    They are found by the index on xid, however long the queue is.
    """
    call = queue.sql()
    kind = func.upper(sa.cast(call.c.kind, Text))
    xids = func.array(select(transactions.c.xid).scalar_subquery())
    found = call.c.xid == func.any(xids) if among is None else among(call.c.xid)
    return (
        select(
            transactions.c.order_no.label("tran"),
            *(column for column in transactions.c if column.name == "calls"),
            call.c.call_no,
            sa.case((changes_key(call), MOVE), else_=kind).label("kind"),
            call.c.moved,
            *queue.keys(call),
            *_images(queue, call),
        )
        .join_from(call, transactions, transactions.c.xid == call.c.xid)
        .where(found)
        .where(*([] if after is None else [call.c.call_no > after]))
        .where(*_in_step(queue, call, transactions))
        .cte("calls")
        .prefix_with("NOT MATERIALIZED")
    )


def _in_step(
    queue: Queue, call: sa.TableClause, transactions: sa.FromClause
) -> list[ColumnElement[bool]]:
    """The conditions that a call lies in a step; none if there are no steps.

    A change that a procedure made at the site is not sent if the destination runs that
    procedure; a change whose maker is not known is sent.
    """
    if "after" not in transactions.c:
        return []
    runs = procedure_call.runs_there(call, queue.destination)
    return [
        call.c.call_no > transactions.c.after,
        call.c.call_no <= transactions.c.order_no,
        sa.case(
            (sa.cast(call.c.kind, Text).in_(("I", "U", "D")), sa.true()),
            else_=sa.not_(func.coalesce(runs, sa.false())),
        ),
    ]


def _nets(queue: Queue, calls: sa.CTE) -> sa.CompoundSelect[Any]:
    """The net change of each row in each transaction, with the row's key."""
    on_trails = trails.calls_on(queue, calls)
    repeated = _repeated(calls, ["tran", *key_names(queue)], on_trails)
    plain = _as_made(queue, calls).where(
        *(
            ~select(one.c.call_no).where(_same(calls, one)).exists()
            for one in (repeated, on_trails)
        )
    )
    rest = _folded(queue, _counted(queue, calls, repeated))
    moved = trails.followed(queue, calls, on_trails)
    return sa.union_all(plain, _as_made(queue, rest), moved)


def _as_made(queue: Queue, calls: sa.FromClause) -> Select[Any]:
    named = ["tran", "call_no", "kind", *key_names(queue)]
    return select(*(calls.c[name] for name in named), *_images(queue, calls))


def _repeated(calls: sa.CTE, by: list[str], but: sa.CTE) -> sa.CTE:
    """Calls on rows that took more than one step, except those of `but`.

    Rows are distinguished by sorting, as their types compare, and joined by call number
    only: keys of some types cannot be hashed, and each would be compared with each. The
    query first asks whether there is such a row, since usually there is none; it skips
    transactions of one call.
    """
    keys = [calls.c[name] for name in by]
    long = [calls.c.calls > 1] if "calls" in calls.c else []
    found = select(calls.c.tran).where(*long).group_by(*keys)
    any_at_all = found.having(func.count() > 1).exists()
    times = func.count().over(partition_by=keys)
    counted = select(calls.c.call_no, times.label("times")).subquery()
    several = counted.c.times > 1
    known = select(but.c.call_no).where(_same(counted, but)).exists()
    return select(counted.c.call_no).where(several, any_at_all, ~known).cte("repeated")


def _counted(queue: Queue, calls: sa.CTE, among: sa.CTE) -> sa.CTE:
    """Some of the calls, with how many their transaction has on the same row."""
    keys = [calls.c[name] for name in key_names(queue)]
    within: dict[str, Any] = {"partition_by": [*keys, calls.c.tran]}
    return (
        select(
            *calls.c,
            func.count().over(**within).label("steps"),
            func.min(calls.c.call_no).over(**within).label("first_no"),
        )
        .join_from(calls, among, _same(calls, among))
        .cte("many")
    )


def _same(left: sa.FromClause, right: sa.FromClause) -> ColumnElement[bool]:
    return left.c.call_no == right.c.call_no


def _folded(queue: Queue, calls: sa.CTE) -> Subquery:
    """Rows that took more than one step, each reduced to its start and end."""
    rows, ends = _rows(queue, calls), _ends(queue, calls)
    start, end = calls.alias("start_call"), calls.alias("end_call")
    # A row that was inserted and deleted is shown by its insert.
    end_no = func.coalesce(
        ends.c.end_no, sa.case((ends.c.left_over.is_(None), rows.c.first_insert))
    )
    kind = _kind(queue, rows, ends, start, end)
    found = (
        select(
            rows.c.tran,
            func.coalesce(ends.c.end_no, rows.c.first_no).label("call_no"),
            kind.label("kind"),
            *(start.c[f"o{n}"] for n in _numbers(queue)),
            *(end.c[f"n{n}"] for n in _numbers(queue)),
            *(rows.c[name] for name in key_names(queue)),
        )
        .select_from(rows.outerjoin(ends, rows.c.first_no == ends.c.first_no))
        .outerjoin(start, start.c.call_no == ends.c.start_no)
        .outerjoin(end, end.c.call_no == end_no)
        .subquery()
    )
    shown = [name for name in columns_of(queue) if name not in ("unit", "several")]
    return (
        select(
            *(_shown(queue, found, name) for name in shown),
            *(found.c[name] for name in key_names(queue)),
        )
        .where(found.c.kind.is_not(None))
        .subquery()
    )


def _rows(queue: Queue, calls: sa.CTE) -> Subquery:
    """One line for each key and transaction that took several steps."""
    keys = [calls.c[name] for name in ("first_no", "tran", *key_names(queue))]
    return (
        select(
            *keys,
            func.min(calls.c.call_no).filter(calls.c.kind == "I").label("first_insert"),
            func.bool_or(sa.and_(calls.c.kind == "D", sa.not_(calls.c.moved))).label(
                "dropped"
            ),
        )
        .where(calls.c.steps > 1)
        .group_by(*keys)
        .subquery()
    )


def _ends(queue: Queue, calls: sa.CTE) -> Subquery:
    """The start and end of each such row: the images that are left over."""
    old = succession.image(calls, [f"o{n}" for n in _numbers(queue)], "I")
    new = succession.image(calls, [f"n{n}" for n in _numbers(queue)], "D")
    row = calls.c.first_no
    steps = sa.union_all(
        select(
            row, calls.c.call_no, sa.literal(1).label("weight"), old.label("image")
        ).where(calls.c.steps > 1),
        select(
            row, calls.c.call_no, sa.literal(-1).label("weight"), new.label("image")
        ).where(calls.c.steps > 1),
    ).subquery()
    left = (
        select(
            steps.c.first_no,
            func.sum(steps.c.weight).label("weight"),
            func.min(steps.c.call_no).filter(steps.c.weight > 0).label("start_no"),
            func.min(steps.c.call_no).filter(steps.c.weight < 0).label("end_no"),
        )
        .group_by(steps.c.first_no, steps.c.image)
        .having(func.sum(steps.c.weight) != 0)
        .subquery()
    )
    return (
        select(
            left.c.first_no,
            func.max(left.c.start_no).filter(left.c.weight > 0).label("start_no"),
            func.max(left.c.end_no).filter(left.c.weight < 0).label("end_no"),
            func.sum(func.abs(left.c.weight)).label("left_over"),
        )
        .group_by(left.c.first_no)
        .subquery()
    )


def _kind(
    queue: Queue, rows: Subquery, ends: Subquery, start: Any, end: Any
) -> ColumnElement[Any]:
    replaced = sa.false() if queue.partial else rows.c.dropped
    return sa.case(
        (ends.c.left_over > 2, "X"),
        (
            sa.and_(ends.c.left_over.is_(None), rows.c.first_insert == rows.c.first_no),
            "N",
        ),
        (ends.c.left_over.is_(None), sa.null()),
        (start.c.kind == "I", "I"),
        (end.c.kind == "D", "D"),
        (replaced, "R"),
        else_="U",
    )


def _shown(queue: Queue, found: Subquery, name: str) -> ColumnElement[Any]:
    """A column of a folded row; an invalid one still names its key."""
    for n, column in enumerate(queue.identity_columns, 1):
        if name == f"n{queue.columns.index(column) + 1}":
            kept = sa.case((found.c.kind == "X", found.c[f"k{n}"]))
            return func.coalesce(found.c[name], kept).label(name)
    return found.c[name]


def _images(queue: Queue, calls: Any) -> list[ColumnElement[Any]]:
    return [calls.c[f"{side}{n}"] for side in ("o", "n") for n in _numbers(queue)]


def _numbers(queue: Queue) -> range:
    return range(1, len(queue.columns) + 1)
