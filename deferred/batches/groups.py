"""Groups: consecutive transactions of a batch that are applied as one change.

HVAR's rules: a transaction joins the group unless the calls of both, as they were
made, would exceed a limit; then the group is dispatched and the next one begins. When
the queue is empty the group is dispatched too: nobody waits for more. A transaction
that exceeds a limit by itself, or touches a table that is to be applied one by one, is
a group of its own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, func, select
from sqlalchemy.dialects.postgresql import aggregate_order_by

from deferred.batches.batch import Batch, within
from deferred.catalog import delivery
from deferred.options import Options
from deferred.queues.queue import Queue
from masters import collector
from sites import QualifiedName, triggers, wide
from sites.catalog import SCHEMA


class Member(NamedTuple):
    """A transaction, as far as grouping looks at it; there are many of them."""

    order_no: int
    calls: int
    #: of its images; 0 where nobody needs to know
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Consecutive transactions of a batch."""

    #: order number of the transaction before the first one
    after: int
    members: tuple[Member, ...]
    #: a transaction that cannot be compiled; no other is applied beside it
    alone: bool = False

    @property
    def end(self) -> int:
        """The order number of the last one."""
        return self.members[-1].order_no

    @property
    def calls(self) -> int:
        """How many calls they have, as they were made."""
        return sum(member.calls for member in self.members)

    def __len__(self) -> int:
        return len(self.members)


def plan(
    members: Sequence[Member], after: int, options: Options, alone: Collection[int] = ()
) -> Iterator[Group]:
    """Divide transactions, given in order, into groups.

    Parameters:
        after: order number of the transaction before the first.
        alone: order numbers of transactions that cannot be compiled.
    """
    calls = list(accumulate((one.calls for one in members), initial=0))
    sizes = list(accumulate((one.size for one in members), initial=0))
    single = [n for n, one in enumerate(members) if one.order_no in alone]
    ends = iter([*single, len(members)])
    first, stop = 0, next(ends)
    while first < len(members):
        by_itself = first == stop
        if by_itself:
            last, stop = first + 1, next(ends)
        else:
            fits = _reaching(calls, first, options.calls_together)
            if options.group_max_bytes:
                fits = min(fits, _reaching(sizes, first, options.group_max_bytes))
            last = max(first + 1, min(fits, stop))
        group = Group(after=after, members=tuple(members[first:last]), alone=by_itself)
        yield group
        first, after = last, group.end


def _reaching(before: Sequence[int], first: int, limit: int) -> int:
    """The member up to which those from the first one on keep to a limit.

    Parameters:
        before: for each member, what those before it amount to.
    """
    return bisect_right(before, before[first] + limit) - 1


def split(group: Group, refused: Collection[int]) -> list[Group]:
    """Divide a group that failed.

    Parameters:
        refused: the transactions it failed for, as far as known: each of them is then
            alone; otherwise the group is halved.
    """
    if len(group) < 2:
        return [group]
    known = [m for m in group.members if m.order_no in refused]
    if not known:
        half = len(group) // 2
        return _divided(group.after, [group.members[:half], group.members[half:]])
    runs: list[list[Member]] = [[]]
    for member in group.members:
        if member.order_no in refused:
            runs += [[member], []]
        else:
            runs[-1].append(member)
    return _divided(group.after, [run for run in runs if run])


def members(
    connection: Connection,
    batch: Batch,
    after: int,
    queues: Sequence[Queue],
    limit: int,
) -> list[Member]:
    """The transactions of a batch beyond an order number, in order.

    Parameters:
        limit: bytes; sizes are looked up only where the queues hold more.
    """
    sizes = (
        _sizes(connection, batch, queues) if _exceeds(connection, queues, limit) else {}
    )
    number = delivery.c.order_no
    # As two arrays: there may be many of them.
    orders, calls = connection.execute(
        select(
            func.array_agg(aggregate_order_by(number, number)),
            func.array_agg(aggregate_order_by(delivery.c.calls, number)),
        ).where(within(batch, after, batch.end))
    ).one()
    with collector.paused():
        each = zip(orders or (), calls or (), strict=True)
        return [Member(order, many, sizes.get(order, 0)) for order, many in each]


def touching(
    connection: Connection,
    batch: Batch,
    calls: sa.TableClause,
    *among: sa.ColumnElement[bool],
) -> set[int]:
    """The transactions of a batch with such calls in a queue, by order number."""
    return set(
        connection.scalars(
            select(delivery.c.order_no)
            .distinct()
            .join_from(delivery, calls, calls.c.xid == delivery.c.xid)
            .where(within(batch, -1, batch.end), *among)
        )
    )


def _divided(after: int, runs: Iterable[Sequence[Member]]) -> list[Group]:
    groups = []
    for run in runs:
        groups.append(Group(after=after, members=tuple(run)))
        after = groups[-1].end
    return groups


def _exceeds(connection: Connection, queues: Sequence[Queue], limit: int) -> bool:
    """Whether the queues together take more than so many bytes on disk."""
    if not limit or not queues:
        return False
    whole = sum(
        (func.pg_table_size(_stored(queue)) for queue in queues), start=sa.literal(0)
    )
    return bool(connection.scalar(select(whole > limit)))


def _stored(queue: Queue) -> ColumnElement[Any]:
    """The table that a queue's rows are in."""
    wide_one = wide.stored(QualifiedName(SCHEMA, queue.queue_table)).name
    named = (func.format("%I.%I", SCHEMA, one) for one in (wide_one, queue.queue_table))
    return func.coalesce(*(func.to_regclass(one) for one in named))


def _sizes(
    connection: Connection, batch: Batch, queues: Sequence[Queue]
) -> dict[int, int]:
    """Bytes of the images of each transaction, as they are stored."""
    each = []
    for queue in queues:
        calls = queue.sql()
        images = [
            calls.c[name]
            for side in ("o", "n")
            for name in triggers.numbered(side, queue.columns)
        ]
        size = sum(
            (func.coalesce(func.pg_column_size(image), 0) for image in images),
            start=sa.literal(0),
        )
        each.append(
            select(delivery.c.order_no, func.sum(size).label("size"))
            .join_from(delivery, calls, calls.c.xid == delivery.c.xid)
            .where(within(batch, -1, batch.end))
            .group_by(delivery.c.order_no)
        )
    sizes = sa.union_all(*each).subquery()
    rows = connection.execute(
        select(
            sizes.c.order_no, sa.cast(func.sum(sizes.c.size), sa.BigInteger)
        ).group_by(sizes.c.order_no)
    )
    return {row.order_no: row.size for row in rows}
