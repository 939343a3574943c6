"""Groups: consecutive transactions of a batch that are applied as one change.

HVAR's rules: a transaction joins the group unless the calls of both, as they were
made, would exceed a limit; then the group is dispatched and the next one begins. At the
end of the batch the group is dispatched too, without waiting for more. A transaction
that exceeds a limit by itself is a group of its own. Transactions of tables that are
to be applied one by one are shipped together, but not compiled.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, func, select

from deferred.batches.batch import Batch, found_by_xid, within
from deferred.batches.ledger import Listing
from deferred.catalog import delivery
from deferred.options import PushOptions
from deferred.queues.queue import Queue
from sites import QualifiedName
from sites.catalog import SCHEMA
from sites.names import numbered
from sites.tables import wide


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedTransactions:
    """Transactions in order, by lists of the facts that grouping needs.

    There may be many, and so there is no object for each.
    """

    orders: Sequence[int]
    calls: Sequence[int]
    #: bytes of their images; none are listed if no limit can be exceeded
    sizes: Sequence[int] = ()

    def __len__(self) -> int:
        return len(self.orders)

    def __getitem__(self, some: slice) -> GroupedTransactions:
        return GroupedTransactions(
            orders=self.orders[some], calls=self.calls[some], sizes=self.sizes[some]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyGroup:
    """Consecutive transactions of a batch."""

    #: order number of the transaction before the first one
    after: int
    members: GroupedTransactions
    #: they cannot be compiled, and no stream may apply others at the same time
    one_by_one: bool = False

    @property
    def end(self) -> int:
        """The order number of the last one."""
        return self.members.orders[-1]

    @property
    def calls(self) -> int:
        """How many calls they have, as they were made."""
        return sum(self.members.calls)

    def __len__(self) -> int:
        return len(self.members)


def plan(
    members: GroupedTransactions,
    after: int,
    options: PushOptions,
    alone: Collection[int] = (),
) -> Iterator[ApplyGroup]:
    """Divide transactions, given in order, into groups.

    Parameters:
        after: order number of the transaction before the first.
        alone: order numbers of transactions that cannot be compiled.
    """
    calls = list(accumulate(members.calls, initial=0))
    sizes = list(accumulate(members.sizes, initial=0))
    first = 0
    for one_by_one, many in _runs(members.orders, alone):
        stop = first + many
        while first < stop:
            fits = _reaching(calls, first, options.calls_together)
            if options.group_max_bytes and members.sizes:
                fits = min(fits, _reaching(sizes, first, options.group_max_bytes))
            last = max(first + 1, min(fits, stop))
            some = members[first:last]
            yield ApplyGroup(after=after, members=some, one_by_one=one_by_one)
            first, after = last, some.orders[-1]


def _runs(orders: Sequence[int], alone: Collection[int]) -> Iterator[tuple[bool, int]]:
    """How many follow one another of those that cannot be compiled, or that can."""
    if not alone:
        yield False, len(orders)
        return
    for one_by_one, run in groupby(orders, lambda one: one in alone):
        yield one_by_one, sum(1 for _ in run)


def _reaching(before: Sequence[int], first: int, limit: int) -> int:
    """The member at which those from `first` on would exceed a limit.

    Parameters:
        before: for each member, the sum over those before it.
    """
    return bisect_right(before, before[first] + limit) - 1


def split(group: ApplyGroup, refused: Collection[int]) -> list[ApplyGroup]:
    """Divide a group that failed.

    Parameters:
        refused: the transactions that made it fail, as far as known: each of them
            becomes a group of its own; if none is known, the group is halved.
    """
    if len(group) < 2:
        return [group]
    orders = group.members.orders
    known = [n for n, order_no in enumerate(orders) if order_no in refused]
    if known:
        cuts = sorted({0, *known, *(n + 1 for n in known), len(orders)})
    else:
        cuts = [0, len(orders) // 2, len(orders)]
    pieces, after = [], group.after
    for first, last in pairwise(cuts):
        pieces.append(ApplyGroup(after=after, members=group.members[first:last]))
        after = pieces[-1].end
    return pieces


def members(
    connection: Connection,
    batch: Batch,
    listed: Listing,
    after: int,
    queues: Sequence[Queue],
    limit: int,
) -> GroupedTransactions:
    """The transactions of a batch after an order number, in order.

    Parameters:
        listed: all of the batch.
        limit: bytes; sizes are looked up only if the queues hold more.
    """
    first = bisect_right(listed.orders, after)
    orders, calls = listed.orders[first:], listed.calls[first:]
    if len(orders) < 2 or not _exceeds(connection, queues, limit):
        return GroupedTransactions(orders=orders, calls=calls)
    found = _sizes(connection, batch, queues)
    sizes = [found.get(order_no, 0) for order_no in orders]
    return GroupedTransactions(orders=orders, calls=calls, sizes=sizes)


def touching(
    connection: Connection,
    batch: Batch,
    calls: sa.TableClause,
    *among: sa.ColumnElement[bool],
) -> set[int]:
    """The transactions of a batch with such calls in a queue, by order number.

    Mostly none has. PostgreSQL does not know how many transactions a new batch has, and
    by a join it would look for the calls of each. So the statement has it read all of
    them by an index, and look up the order numbers of those that it finds.
    """
    part = batch.destination, batch.number, -1, batch.end
    there = found_by_xid(*part)(calls.c.xid)
    matching = select(calls.c.xid).distinct().where(there, *among)
    found = matching.subquery("found")
    order_no = (
        select(delivery.c.order_no)
        .where(within(batch, -1, batch.end), delivery.c.xid == found.c.xid)
        .correlate(found)
        .scalar_subquery()
    )
    numbers = connection.scalars(select(order_no).select_from(found))
    # NULL for a transaction that the index found, and that is not in the batch.
    return {number for number in numbers if number is not None}


#: No table of PostgreSQL can be larger.
_MOST_BYTES = 2**62


def _exceeds(connection: Connection, queues: Sequence[Queue], limit: int) -> bool:
    """Whether the queues together take more bytes on disk than the limit."""
    if not limit or not queues:
        return False
    sizes = (func.pg_table_size(_stored(queue)) for queue in queues)
    whole = sum(sizes, start=sa.literal(0, sa.BigInteger))
    most = sa.literal(min(limit, _MOST_BYTES), sa.BigInteger)
    return bool(connection.scalar(select(whole > most)))


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
            for name in numbered(side, queue.columns)
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
            sizes.c.order_no,
            sa.cast(func.sum(sizes.c.size), sa.BigInteger).label("size"),
        ).group_by(sizes.c.order_no)
    )
    return {row.order_no: row.size for row in rows}
