"""Windows that are one batch, of many transactions that are alike.

The row of such a batch says which they are: those that began after the position of the
window before, and that its own position shows. So none of them needs a row of its own.
A transaction that was open at the position before has one (docs/decisions/0016).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, FromClause, Text, and_, cast, func, select
from sqlalchemy.dialects import postgresql

from deferred.batches import ledger, window
from deferred.catalog import deferred_transaction
from deferred.queues.delivery_rows import SAID
from deferred.queues.queue import Queue, call_numbers_of
from sites.capture import position
from sites.sessions.prepared import Prepared
from sites.transfer.types import PgSnapshot, Xid8

#: A batch of at least so many transactions does without a row for each, if it can.
MANY = 100

_SEEN = sa.bindparam("seen", position.START, Text)
_NOW = cast(sa.bindparam("now", position.START, Text), PgSnapshot())


@lru_cache(maxsize=64)
def first_cut(queues: tuple[Queue, ...], name: str) -> Prepared:
    """Begin a batch of all transactions of a new window, without a row for each.

    Takes what `cut._first_cut` takes, and `many`, which is `MANY`. Writes and returns
    nothing if some of them need rows.
    """
    calls, seen = call_numbers_of(queues, name), cast(_SEEN, PgSnapshot())
    when = partial(position.since, position=_SEEN)
    each = window.rows(calls, name, when, all_of_them=True)
    each = each.where(_may_be_alike(calls, when))
    begun = position.begun_since(deferred_transaction.c.xid, seen)
    order_no = each.selected_columns.order_no
    in_place = deferred_transaction.c.order_no.is_not_distinct_from(order_no)
    each = each.add_columns(
        *ledger.facts(), begun.label("begun"), in_place.label("in_place")
    )
    told = _summary(each.subquery()).cte("told").prefix_with("MATERIALIZED")
    end = select(told.c.batch_end).scalar_subquery()
    lists = select(*(told.c[column] for column in ledger.LISTS)).subquery("listed")
    said = select(*(told.c[column] for column in SAID)).subquery("said")
    late = window.rows(calls, name, partial(position.open_at, position=seen))
    numbered = late.add_columns(window.NUMBER).where(end.is_not(None))
    begins = window.beginning(name, end, lists, said, window_end=_NOW)
    return Prepared(begins.add_cte(window.insert(numbered, "batch").cte("written")))


def _may_be_alike(
    calls: Sequence[sa.Select[Any]], when: Callable[[ColumnElement[Any]], Any]
) -> ColumnElement[bool]:
    """Whether the number of calls is a multiple of the number of transactions.

    If not, these cannot all have the same number of calls. Counting costs little, so
    PostgreSQL asks this once, before it looks at each transaction.
    """
    some = [one.where(when(one.selected_columns.xid)) for one in calls]
    queued, tran = sa.union_all(*some).subquery(), deferred_transaction
    made = select(func.count()).select_from(tran).where(when(tran.c.xid))
    all_calls, all_made = (
        one.correlate(None).scalar_subquery()
        for one in (select(func.count()).select_from(queued), made)
    )
    return func.mod(all_calls, func.nullif(all_made, 0)) == 0


def _summary(each: FromClause) -> sa.Select[Any]:
    """The lists of a batch, and what its row says; no `batch_end` if it needs rows.

    It needs none if there are many transactions and they fit one batch; if all have
    calls to the destination, the same number of them, and were made here; and if none
    has an order number lower than that of its last call.

    Parameters:
        each: the transactions of the window, whether they have calls or not.
    """
    its = each.c
    many = func.count().filter(its.begun)
    seen = cast(_SEEN, PgSnapshot())
    fit = and_(
        many >= sa.bindparam("many", 0, sa.BigInteger),
        func.sum(its.calls) <= sa.bindparam("most", 0, sa.BigInteger),
        func.min(its.calls) == func.max(its.calls),
        func.count(its.origins) == 0,
        func.bool_and(its.in_place).filter(its.begun),
        func.count(its.calls) == func.count(),
    )
    times = cast(func.count(), sa.Integer)
    same = func.array_fill(func.min(its.calls), postgresql.array([times]))
    values: dict[str, ColumnElement[Any]] = {
        "batch_end": sa.case((fit, func.max(its.order_no))),
        "calls": sa.case((func.min(its.calls) > 1, cast(same, Text))),
        "origins": cast(sa.null(), Text),
        "made": cast(sa.null(), Text),
        "first_xid": func.pg_snapshot_xmax(seen, type_=Xid8()),
        "shown": _NOW,
        "first_order": func.min(its.order_no).filter(its.begun),
        "last_order": func.max(its.order_no).filter(its.begun),
        "calls_each": func.min(its.calls),
    }
    return select(
        *ledger.always_listed(each),
        *(value.label(column) for column, value in values.items()),
    )
