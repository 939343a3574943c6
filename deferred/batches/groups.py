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

from deferred.batches import procedure_call
from deferred.batches.batch import Batch, purged, touching, within
from deferred.batches.shipment import Shipment
from deferred.catalog import delivery
from deferred.options import PushOptions
from deferred.queues.queue import Queue, changes_key
from sites import QualifiedName, names
from sites.catalog import SCHEMA
from sites.names import numbered
from sites.tables import references, wide


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


def planned(
    shipment: Shipment, after: int, options: PushOptions, most: int | None
) -> list[ApplyGroup]:
    """The groups of a batch after an order number.

    Parameters:
        most: how many transactions may be delivered; None for all.

    Raises:
        PositionMismatch: their transactions were answered before and since purged.
    """
    found = _members(shipment, after, options.group_max_bytes)
    if not found:
        raise purged(shipment.batch)
    now = found[:most]
    if len(now) == 1 or not (options.grouping or options.parallel):
        return [ApplyGroup(after=after, members=now)]
    alone = _alone(shipment, options.one_by_one)
    return list(plan(now, after, options, alone))


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


def _members(shipment: Shipment, after: int, limit: int) -> GroupedTransactions:
    """The transactions of a batch after an order number, in order.

    Parameters:
        limit: bytes; sizes are looked up only if the queues hold more.
    """
    listed, origin, queues = shipment.listed, shipment.origin, shipment.queues
    first = bisect_right(listed.orders, after)
    orders, calls = listed.orders[first:], listed.calls[first:]
    if len(orders) < 2 or not _exceeds(origin, queues, limit):
        return GroupedTransactions(orders=orders, calls=calls)
    found = _sizes(origin, shipment.batch, queues)
    sizes = [found.get(order_no, 0) for order_no in orders]
    return GroupedTransactions(orders=orders, calls=calls, sizes=sizes)


def _alone(shipment: Shipment, excluded: Sequence[str]) -> set[int]:
    """Transactions that cannot be compiled.

    Those that call procedures or change keys; those that give a value to a column that
    the destination has dropped; those of excluded tables, of tables that
    the destination sends on to other masters, and of groups that are quiet there; and
    if foreign keys at the master act, those whose deletes or changed keys may reach
    rows that other transactions of the group change.
    """
    acting = references.acting(shipment.target, [one.table for one in shipment.staged])
    named = {names.parse(name) for name in excluded} | shipment.terms.alone
    found = procedure_call.orders(shipment.origin, shipment.batch)
    found |= shipment.giving
    for queue, staged in zip(shipment.queues, shipment.staged, strict=True):
        calls = queue.sql()
        if queue.target in named:
            found |= touching(shipment.origin, shipment.batch, calls)
            continue
        single = changes_key(calls)
        if columns := acting.get(staged.table.oid):
            single |= _reaching_calls(queue, calls, columns)
        found |= touching(shipment.origin, shipment.batch, calls, single)
    return found


def _reaching_calls(
    queue: Queue, calls: sa.TableClause, columns: tuple[str, ...]
) -> ColumnElement[bool]:
    """Calls that delete a row, or change values that other rows refer to."""
    numbers = [queue.columns.index(c) + 1 for c in columns if c in queue.columns]
    moved = [calls.c[f"o{n}"].is_distinct_from(calls.c[f"n{n}"]) for n in numbers]
    kind = func.upper(sa.cast(calls.c.kind, sa.Text))
    return sa.or_(kind == "D", *((kind == "U") & one for one in moved))


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
