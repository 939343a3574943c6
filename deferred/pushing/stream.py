"""One of several streams: it applies groups ahead of their turn, and commits in turn.

A stream commits a group only if the result is the same as in the group's turn: no
conflict, no error, no relation to a parked transaction. Until all groups before it are
committed, its transaction locks the group's rows and holds its unique values and
parents, so nothing that it has read can change. Any other group is rolled back and
left to the push itself, in its turn (docs/explanation/streams.md).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Condition

from sqlalchemy.exc import DBAPIError

from deferred.batches import marker
from deferred.batches.groups import ApplyGroup
from deferred.batches.marker import Marker
from deferred.batches.provenance import Sender
from deferred.batches.shipment import Shipment
from deferred.batches.shipping import Part, ship
from deferred.pushing import compiled
from deferred.pushing.compiled import Refused
from deferred.pushing.delivery import Delivered
from masters.apply import ApplyUnit
from sites import faults
from sites.errors import SnaptideError

#: Seconds for which finished work waits for its turn with rows locked. After that it
#: is rolled back, so that users can have the rows, and is done again.
PATIENCE = 10.0


class CommitOrder:
    """Which place may commit next: threads work in parallel, and commit in order.

    Places are numbered from 0. The thread that holds a place waits until all places
    before it are committed; a halt at a place keeps it, and all after it, from being
    committed.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._done = 0
        self._halt = 0

    @property
    def done(self) -> int:
        """How many places are committed: all before this one."""
        return self._done

    def open(self, until: int) -> None:
        """Let the places before this one be committed."""
        with self._changed:
            self._halt = until

    def halt(self, place: int) -> None:
        """Keep this place, and all after it, from being committed."""
        with self._changed:
            self._halt = min(self._halt, place)
            self._changed.notify_all()

    def reached(self, place: int, before: int) -> bool:
        """Wait until place `before` is committed; False if `place` is halted."""
        with self._changed:
            self._changed.wait_for(lambda: self._done > before or self._halt <= place)
            return self._halt > place

    def take(self, place: int) -> bool:
        """Wait for the turn of a place; halt there if it does not come in time."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._done == place or self._halt <= place, timeout=PATIENCE
            )
            if self._done < place:
                self.halt(place)
            return self._halt > place

    def pass_on(self) -> None:
        """Give the caller's turn to the next place."""
        with self._changed:
            self._done += 1
            self._changed.notify_all()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupInOrder:
    """A group in its place among those of its batch."""

    place: int
    group: ApplyGroup
    #: the last place before it that it shares a row with; -1 if there is none
    waits_for: int
    #: where the marker stands before it, and after it
    at: Marker
    to: Marker


@dataclass(slots=True, kw_only=True)
class Stream:
    """A stream: what it ships with, and the groups that it has to apply, in order."""

    shipment: Shipment
    sender: Sender
    #: a table's changes go by COPY if they are at least this many rows
    bulk: int
    #: groups that are shipped together: one, or single transactions
    stream_batches: deque[list[GroupInOrder]] = field(default_factory=deque)
    calls: int = 0
    _shipped: bool = False

    def run(
        self, order: CommitOrder, done: Callable[[GroupInOrder, Delivered], bool]
    ) -> None:
        """Apply the stream batches, until a halt or until nothing is left.

        Parameters:
            done: called after each committed group; returns False if the run is over.
        """
        while self.stream_batches:
            stream_batch = self.stream_batches[0]
            while stream_batch:
                place = stream_batch[0].place
                try:
                    if place >= order.done and not self._apply_in_turn(
                        stream_batch, order, done
                    ):
                        return
                except (DBAPIError, SnaptideError):
                    # If the error lasts, the push itself will meet it too.
                    order.halt(place)
                    self._undo()
                    return
                except BaseException:
                    order.halt(place)
                    raise
                stream_batch.pop(0)
            self.stream_batches.popleft()
            self._shipped = False

    @property
    def broken(self) -> bool:
        """Whether one of its connections is lost."""
        return self.shipment.origin.invalidated or self.shipment.target.invalidated

    def _apply_in_turn(
        self,
        stream_batch: Sequence[GroupInOrder],
        order: CommitOrder,
        done: Callable[[GroupInOrder, Delivered], bool],
    ) -> bool:
        """Apply the first group of a stream batch, and commit it in its turn."""
        piece = stream_batch[0]
        if not order.reached(piece.place, -1):
            return False
        if not self._shipped:
            self._ship(stream_batch)
        if not order.reached(piece.place, piece.waits_for):
            return False
        if not marker.lock_shared(
            self.shipment.target, self.sender.id, self.shipment.began_at.watch_version
        ):
            order.halt(piece.place)
            self._undo()
            return False
        faults.point("stream.before_apply")
        delivered = self._apply(piece)
        if delivered is None:
            order.halt(piece.place)
            faults.point("stream.after_refusal")
        faults.point("stream.after_apply")
        if delivered is None or not order.take(piece.place):
            self._undo()
            return False
        return self._commit(piece, delivered, order, done)

    def _ship(self, stream_batch: Sequence[GroupInOrder]) -> None:
        several = len(stream_batch) > 1
        part = Part(
            after=stream_batch[0].group.after,
            end=stream_batch[-1].group.end,
            only=[one.group.end for one in stream_batch] if several else None,
            transactions=sum(len(one.group) for one in stream_batch),
            calls=sum(one.group.calls for one in stream_batch),
            together=len(stream_batch[0].group) > 1,
        )
        ship(self.shipment, part, self.bulk)
        self.shipment.target.commit()
        self._shipped = True
        faults.point("stream.after_ship")

    def _apply(self, piece: GroupInOrder) -> Delivered | None:
        """Apply a group; None if the push has to apply it in its turn."""
        unit = compiled.unit_of(self.shipment, self.sender, piece.group)
        if _unheld(unit):
            return None
        answer = compiled.try_apply_group(
            self.shipment, self.sender, unit, patient=False
        )
        return None if isinstance(answer, Refused) or answer.resolved else answer

    def _commit(
        self,
        piece: GroupInOrder,
        delivered: Delivered,
        order: CommitOrder,
        done: Callable[[GroupInOrder, Delivered], bool],
    ) -> bool:
        target = self.shipment.target
        if not marker.advance(target, self.sender.id, piece.at, piece.to):
            order.halt(piece.place)  # another pusher has gone on
            self._undo()
            return False
        self.shipment.enter(piece.at)
        compiled.note_applied(self.shipment, self.sender, piece.group)
        faults.point("stream.before_commit")
        target.commit()
        faults.point("stream.after_commit")
        if not done(piece, delivered):
            order.halt(piece.place + 1)
        order.pass_on()
        return True

    def _undo(self) -> None:
        for connection in (self.shipment.target, self.shipment.origin):
            connection.rollback()


def _unheld(unit: ApplyUnit) -> bool:
    """Whether it needs keys to be absent that other streams might still insert.

    `deferred.pushing.dependence` finds transactions of one key by the key's text; keys
    of some types are equal although their texts differ.
    """
    return any(
        (count.get("A") or count.get("N"))
        and not all(staged.table.column(name).exact for name in staged.identity)
        for staged, count in zip(unit.staged, unit.counts, strict=True)
    )
