"""Finds changes that have come to one master and not to another, by their queues."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, FromClause, Select, Text, func, select

from deferred.batches.marker import Marker
from deferred.catalog import deferred_transaction, delivery, procedure_call
from deferred.queues.queue import Queue, changes_key
from deferred.queues.refresh_coverage import beyond
from groups.check.moments import Held, Moment
from sites import QualifiedName
from sites.capture import position
from snapshots import keys


@dataclass(frozen=True, slots=True)
class Call:
    """A change of a row on its way between two masters."""

    transaction: str
    began: datetime | None
    #: at which master it is, and at which it is not
    where: str


def on_the_way(held: Held, table: QualifiedName, wanted: FromClause) -> dict[int, Call]:
    """By number of a wanted key, a change of it that not all masters show.

    Parameters:
        wanted: keys, as `snapshots.keys.numbered` makes them.
    """
    found: dict[int, Call] = {}
    for one in held.masters:
        for queue in held.queues[one.name]:
            other = held.master(queue.destination)
            if other is None or queue.target != table:
                continue
            for row in one.later.execute(_apart(one, other, queue, wanted)):
                found.setdefault(row.no, _call(one, other, row))
    return found


def procedures(held: Held) -> Iterator[str]:
    """Calls of procedures that not all masters have run: their rows are not known."""
    for one in held.masters:
        for other in held.masters:
            if one is other:
                continue
            to, xid = procedure_call.c.destinations, procedure_call.c.xid
            query = (
                select(procedure_call.c.name)
                .select_from(_sent(procedure_call, xid, other.name))
                .where(sa.literal(other.name) == func.any(to), _differ(one, other, xid))
                .limit(1)
            )
            name = one.later.scalar(query)
            if name is not None:
                yield (
                    f"{one.name} has called {name}, which has not run at {other.name} "
                    "and may change any row"
                )


def of_keys(queue: Queue, wanted: FromClause) -> Select[Any]:
    """The calls of wanted keys that go to the queue's destination: `no` and `xid`."""
    calls = queue.sql()
    each = sa.union_all(
        select(*queue.keys(calls), calls.c.xid),
        select(*queue.new_keys(calls), calls.c.xid).where(changes_key(calls)),
    ).subquery("each")
    names = [column.name for column in wanted.c if column.name != "no"]
    same = keys.same(names, wanted, lambda name: each.c[name])
    return (
        select(wanted.c.no, each.c.xid)
        .select_from(wanted.join(each, same))
        .where(queue.goes_there(each.c.xid))
        .distinct()
    )


def _apart(one: Moment, other: Moment, queue: Queue, wanted: FromClause) -> Select[Any]:
    """Calls of wanted keys that one of two masters shows at its moment, not both."""
    calls = of_keys(queue, wanted).subquery("calls")
    made = deferred_transaction.c
    return (
        select(
            calls.c.no,
            func.coalesce(made.origin_transaction, sa.cast(made.xid, Text)).label("id"),
            func.coalesce(made.origin, one.name).label("origin"),
            func.coalesce(made.made_at, made.start_time).label("began"),
            _shows(one, calls.c.xid).label("here"),
        )
        .select_from(
            _sent(calls, calls.c.xid, other.name).join(
                deferred_transaction, made.xid == calls.c.xid
            )
        )
        .where(_differ(one, other, calls.c.xid))
        .order_by(calls.c.no, made.order_no)
    )


def _sent(calls: FromClause, xid: ColumnElement[Any], to: str) -> sa.Join:
    mine = sa.and_(delivery.c.destination == to, delivery.c.xid == xid)
    return calls.outerjoin(delivery, mine)


def _shows(one: Moment, xid: ColumnElement[Any]) -> ColumnElement[bool]:
    """Whether the moment of a master shows a transaction of its queue."""
    return sa.not_(position.after(xid, one.position))


def _differ(one: Moment, other: Moment, xid: ColumnElement[Any]) -> ColumnElement[bool]:
    """Whether one moment shows a transaction, and the other has not answered it.

    Or the other way round.
    """
    mark = other.markers.get(one.who.site_id, Marker())
    waits = beyond(mark.batch_no, mark.order_no)
    shows = _shows(one, xid)
    return sa.or_(sa.and_(shows, waits), sa.and_(sa.not_(shows), sa.not_(waits)))


def _call(one: Moment, other: Moment, row: sa.Row[Any]) -> Call:
    where = (
        f"at {one.name}, not yet at {other.name}"
        if row.here
        else f"at {other.name}, made at {one.name} after that was looked at"
    )
    return Call(f"{row.id} of {row.origin}", row.began, where)
