"""Several streams to one destination, which apply the groups of a batch in parallel.

They commit in the order of the batch, and each commit moves the one marker, so the
destination passes through the same states as with one stream.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from sqlalchemy import Connection, Engine

from deferred.batches import marker
from deferred.batches.groups import ApplyGroup
from deferred.batches.marker import Marker
from deferred.batches.provenance import Sender
from deferred.batches.shipment import Shipment, prepare_again
from deferred.options import STREAM_CALLS
from deferred.pushing import apply_groups, dependence
from deferred.pushing.delivery import Delivered
from deferred.pushing.run import Run
from deferred.pushing.stream import CommitOrder, GroupInOrder, Stream
from sites import Site
from sites.errors import NoConnectionFree

log = logging.getLogger(__name__)

Pair = tuple[Connection, Connection]


@contextmanager
def opened(home: Site, peer: Site, streams: int) -> Iterator[list[Pair]]:
    """Open a pair of connections, one to each end, for each stream.

    If the servers have no room for so many, there are fewer streams: a push that waited
    for more would keep those that it has from others.

    Raises:
        SiteUnreachable: an end cannot be reached.
    """
    with ExitStack() as stack:
        pairs: list[Pair] = []
        with suppress(NoConnectionFree):
            while len(pairs) < streams:
                pairs.append(stack.enter_context(_pair(home, peer)))
        if len(pairs) < streams:
            log.info("%d of %d streams found a free connection.", len(pairs), streams)
        yield pairs


@contextmanager
def _pair(home: Site, peer: Site) -> Iterator[Pair]:
    with (
        home.session(_pool(home), waits=False) as origin,
        peer.session(_pool(peer), waits=False) as target,
    ):
        yield origin, target


def apply_all(
    shipment: Shipment,
    pairs: Sequence[Pair],
    sender: Sender,
    groups: Sequence[ApplyGroup],
    at: Marker,
    run: Run,
) -> None:
    """Deliver the groups of a batch in parallel; the marker says how many.

    Parameters:
        shipment: delivers the groups that no stream can, while all streams stand still.
        pairs: connections of the streams.
        at: the marker before the first group.
    """
    marker.make(shipment.target, sender.id, sender.name)
    shipment.target.commit()
    pieces = _pieces(shipment, groups, at)
    streams = [
        Stream(
            shipment=_prepared(shipment, pair),
            sender=sender,
            bulk=run.options.bulk_threshold,
        )
        for pair in pairs
    ]
    shipment.origin.commit()  # nothing was written there
    _divide(pieces, streams)
    with ThreadPoolExecutor(len(streams), thread_name_prefix="stream") as pool:
        _ParallelRun(pieces=pieces, streams=streams, pool=pool, run=run).all(
            shipment, sender
        )


def _pool(site: Site) -> Engine:
    """A pool without a limit: no stream waits for another push's connections."""

    def make() -> Engine:
        return site.new_engine(pool_size=4, max_overflow=-1)

    return site.pool("streams", make)


def _prepared(shipment: Shipment, pair: Pair) -> Shipment:
    again = prepare_again(shipment, *pair)
    again.target.commit()
    again.origin.commit()  # nothing was written there
    return again


def _pieces(
    shipment: Shipment, groups: Sequence[ApplyGroup], at: Marker
) -> list[GroupInOrder]:
    shared = dependence.last_shared(shipment, groups[0].after, STREAM_CALLS)
    ends = [group.end for group in groups]
    pieces = []
    for place, group in enumerate(groups):
        before = [shared.get(order_no, -1) for order_no in group.members.orders]
        outside = [one for one in before if groups[0].after < one <= group.after]
        to = Marker(
            batch_no=shipment.batch.number,
            batch_id=shipment.batch.id,
            order_no=group.end,
        )
        pieces.append(
            GroupInOrder(
                place=place,
                group=group,
                waits_for=bisect_left(ends, max(outside)) if outside else -1,
                at=at,
                to=to,
            )
        )
        at = to
    return pieces


def _by_itself(piece: GroupInOrder) -> bool:
    """Whether no stream takes it, because its shared rows are not known."""
    return piece.group.one_by_one or piece.group.calls > STREAM_CALLS


def _divide(pieces: Sequence[GroupInOrder], streams: Sequence[Stream]) -> None:
    """Give each stream its share; pieces that share a row go through the same one."""
    of: dict[int, Stream] = {}
    for piece in pieces:
        if _by_itself(piece):
            continue
        stream = of.get(piece.waits_for) or min(streams, key=lambda s: s.calls)
        of[piece.place] = stream
        _assign(stream, piece)


def _assign(stream: Stream, piece: GroupInOrder) -> None:
    last = stream.stream_batches[-1] if stream.stream_batches else []
    carried = sum(one.group.calls for one in last) + piece.group.calls
    single = len(piece.group) == 1 and bool(last) and len(last[0].group) == 1
    if single and carried <= apply_groups.SHIPPED:
        last.append(piece)
    else:
        stream.stream_batches.append([piece])
    stream.calls += piece.group.calls


@dataclass(frozen=True, slots=True, kw_only=True)
class _ParallelRun:
    """Streams that work in parallel until a piece has to be delivered by itself."""

    pieces: Sequence[GroupInOrder]
    streams: Sequence[Stream]
    pool: ThreadPoolExecutor
    run: Run

    def all(self, shipment: Shipment, sender: Sender) -> None:
        """Deliver the pieces in order, until all are done or the run is over."""
        order = CommitOrder()
        while order.done < len(self.pieces) and not self.run.over():
            self._side_by_side(order)
            if order.done == len(self.pieces) or self.run.over():
                return
            if not apply_groups.apply_group(
                shipment, sender, self.pieces[order.done].group, self.run
            ):
                return
            order.pass_on()

    def _side_by_side(self, order: CommitOrder) -> None:
        ahead = self.pieces[order.done :]
        lost = self._lost()
        until = next(
            (p.place for p in ahead if p.place in lost or _by_itself(p)),
            len(self.pieces),
        )
        order.open(until)
        try:
            at_work = [
                self.pool.submit(stream.run, order, self._count)
                for stream in self.streams
                if not stream.broken
            ]
            for one in at_work:
                one.result()
        except BaseException:
            order.halt(0)
            raise

    def _lost(self) -> set[int]:
        """Places of the pieces of streams that have lost a session."""
        broken = (stream for stream in self.streams if stream.broken)
        return {
            p.place
            for stream in broken
            for stream_batch in stream.stream_batches
            for p in stream_batch
        }

    def _count(self, piece: GroupInOrder, delivered: Delivered) -> bool:
        group = piece.group
        self.run.count(delivered, transactions=len(group), calls=group.calls)
        return not self.run.over()
