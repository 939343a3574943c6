"""Several streams to one destination, which apply the groups of a batch in parallel.

They commit in the order of the batch, and each commit moves the one marker, so the
destination passes through the same states as with one stream.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from sqlalchemy import Connection, Engine

from deferred.batches import marker
from deferred.batches.batch import Batch
from deferred.batches.groups import Group
from deferred.batches.marker import Marker
from deferred.batches.shipping import Line, lay
from deferred.options import STREAM_CALLS
from deferred.pushing import carry, dependence
from deferred.pushing.delivery import Delivered
from deferred.pushing.origin import Origin
from deferred.pushing.run import Run
from deferred.pushing.stream import Piece, Stream
from deferred.pushing.turns import Turns
from sites import Site

Pair = tuple[Connection, Connection]


@contextmanager
def opened(home: Site, peer: Site, streams: int) -> Iterator[list[Pair]]:
    """Open a pair of connections, one to each end, for each stream.

    Raises:
        SiteUnreachable: an end cannot be reached.
    """
    with ExitStack() as stack:
        yield [
            (
                stack.enter_context(home.connect(_pool(home))),
                stack.enter_context(peer.connect(_pool(peer))),
            )
            for _ in range(streams)
        ]


def carry_all(
    line: Line,
    pairs: Sequence[Pair],
    origin: Origin,
    groups: Sequence[Group],
    at: Marker,
    run: Run,
) -> None:
    """Deliver the groups of a batch, in parallel if there are several streams.

    Parameters:
        line: delivers the groups that no stream can, while all streams stand still.
        pairs: connections of the streams.
        at: the marker before the first group.
    """
    if len(pairs) < 2 or len(groups) < 2 or line.watched:
        for group in groups:
            if not carry.carry(line, origin, group, run):
                return
        return
    marker.make(line.target, origin.id, origin.name)
    line.target.commit()
    pieces = _pieces(line, groups, at)
    streams = [
        Stream(
            line=replace(
                _laid(pair, line.batch, origin.name), watched_for=line.watched_for
            ),
            origin=origin,
            bulk=run.options.bulk_threshold,
        )
        for pair in pairs
    ]
    line.origin.commit()  # nothing was written there
    _divide(pieces, streams)
    with ThreadPoolExecutor(len(streams), thread_name_prefix="stream") as pool:
        _Round(pieces=pieces, streams=streams, pool=pool, run=run).all(line, origin)


def _pool(site: Site) -> Engine:
    """A pool without a limit: no stream waits for another push's connections."""

    def make() -> Engine:
        return site.new_engine(pool_pre_ping=True, pool_size=4, max_overflow=-1)

    return site.pool("streams", make)


def _laid(pair: Pair, batch: Batch, sender: str) -> Line:
    line = lay(*pair, batch, sender)
    line.target.commit()
    line.origin.commit()  # nothing was written there
    return line


def _pieces(line: Line, groups: Sequence[Group], at: Marker) -> list[Piece]:
    shared = dependence.last_shared(line, groups[0].after, STREAM_CALLS)
    ends = [group.end for group in groups]
    pieces = []
    for place, group in enumerate(groups):
        before = [shared.get(member.order_no, -1) for member in group.members]
        outside = [one for one in before if groups[0].after < one <= group.after]
        to = Marker(
            batch_no=line.batch.number, batch_id=line.batch.id, order_no=group.end
        )
        pieces.append(
            Piece(
                place=place,
                group=group,
                waits_for=bisect_left(ends, max(outside)) if outside else -1,
                at=at,
                to=to,
            )
        )
        at = to
    return pieces


def _by_itself(piece: Piece) -> bool:
    """Whether no stream takes it, because its shared rows are not known."""
    return piece.group.one_by_one or piece.group.calls > STREAM_CALLS


def _divide(pieces: Sequence[Piece], streams: Sequence[Stream]) -> None:
    """Give each stream its share; pieces that share a row go through the same one."""
    of: dict[int, Stream] = {}
    for piece in pieces:
        if _by_itself(piece):
            continue
        stream = of.get(piece.waits_for) or min(streams, key=lambda s: s.calls)
        of[piece.place] = stream
        _load(stream, piece)


def _load(stream: Stream, piece: Piece) -> None:
    last = stream.loads[-1] if stream.loads else []
    carried = sum(one.group.calls for one in last) + piece.group.calls
    single = len(piece.group) == 1 and bool(last) and len(last[0].group) == 1
    if single and carried <= carry.SHIPPED:
        last.append(piece)
    else:
        stream.loads.append([piece])
    stream.calls += piece.group.calls


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    """Streams that work in parallel until a piece has to be delivered by itself."""

    pieces: Sequence[Piece]
    streams: Sequence[Stream]
    pool: ThreadPoolExecutor
    run: Run

    def all(self, line: Line, origin: Origin) -> None:
        """Deliver the pieces in order, until all are done or the run is over."""
        turns = Turns()
        while turns.done < len(self.pieces) and not self.run.over():
            self._side_by_side(turns)
            if turns.done == len(self.pieces) or self.run.over():
                return
            if not carry.carry(line, origin, self.pieces[turns.done].group, self.run):
                return
            turns.pass_on()

    def _side_by_side(self, turns: Turns) -> None:
        ahead = self.pieces[turns.done :]
        lost = self._lost()
        until = next(
            (p.place for p in ahead if p.place in lost or _by_itself(p)),
            len(self.pieces),
        )
        turns.open(until)
        try:
            at_work = [
                self.pool.submit(stream.run, turns, self._count)
                for stream in self.streams
                if not stream.broken
            ]
            for one in at_work:
                one.result()
        except BaseException:
            turns.halt(0)
            raise

    def _lost(self) -> set[int]:
        """Places of the pieces of streams that have lost a session."""
        broken = (stream for stream in self.streams if stream.broken)
        return {p.place for stream in broken for load in stream.loads for p in load}

    def _count(self, piece: Piece, delivered: Delivered) -> bool:
        group = piece.group
        self.run.count(delivered, transactions=len(group), calls=group.calls)
        return not self.run.over()
