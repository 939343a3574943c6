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

from sqlalchemy.exc import DBAPIError

from deferred.batches import arrivals, marker
from deferred.batches.groups import Group
from deferred.batches.marker import Marker
from deferred.batches.shipping import Line, ship
from deferred.pushing import compiled
from deferred.pushing.compiled import Refused
from deferred.pushing.delivery import Delivered
from deferred.pushing.origin import Origin
from deferred.pushing.turns import Turns
from masters.apply import Unit
from sites import faults
from sites.errors import SnaptideError


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A group in its place among those of its batch."""

    place: int
    group: Group
    #: the last place before it that it shares a row with; -1 if there is none
    waits_for: int
    #: where the marker stands before it, and after it
    at: Marker
    to: Marker


@dataclass(slots=True, kw_only=True)
class Stream:
    """A line, and the groups that it has to carry, in order."""

    line: Line
    origin: Origin
    #: a table's changes go by COPY if they are at least this many rows
    bulk: int
    #: pieces that are shipped together: a group, or single transactions
    loads: deque[list[Piece]] = field(default_factory=deque)
    calls: int = 0
    _shipped: bool = False

    def run(self, turns: Turns, done: Callable[[Piece, Delivered], bool]) -> None:
        """Carry the loads, until a halt or until nothing is left.

        Parameters:
            done: called after each committed piece; returns False if the run is over.
        """
        while self.loads:
            load = self.loads[0]
            while load:
                place = load[0].place
                try:
                    if place >= turns.done and not self._carry(load, turns, done):
                        return
                except (DBAPIError, SnaptideError):
                    # If the error lasts, the push itself will meet it too.
                    turns.halt(place)
                    self._undo()
                    return
                except BaseException:
                    turns.halt(place)
                    raise
                load.pop(0)
            self.loads.popleft()
            self._shipped = False

    @property
    def broken(self) -> bool:
        """Whether one of its connections is lost."""
        return self.line.origin.invalidated or self.line.target.invalidated

    def _carry(
        self,
        load: Sequence[Piece],
        turns: Turns,
        done: Callable[[Piece, Delivered], bool],
    ) -> bool:
        """Apply the first piece of a load, and commit it in its turn."""
        piece = load[0]
        if not turns.reached(piece.place, -1):
            return False
        if not self._shipped:
            self._ship(load)
        if not turns.reached(piece.place, piece.waits_for):
            return False
        if not marker.share(self.line.target, self.origin.id, self.line.watched_for):
            turns.halt(piece.place)
            self._undo()
            return False
        faults.point("stream.before_apply")
        delivered = self._apply(piece)
        if delivered is None:
            turns.halt(piece.place)
            faults.point("stream.after_refusal")
        faults.point("stream.after_apply")
        if delivered is None or not turns.take(piece.place):
            self._undo()
            return False
        return self._commit(piece, delivered, turns, done)

    def _ship(self, load: Sequence[Piece]) -> None:
        ship(
            self.line,
            load[0].group.after,
            load[-1].group.end,
            together=len(load[0].group) > 1,
            bulk=self.bulk,
            calls=sum(one.group.calls for one in load),
            transactions=sum(len(one.group) for one in load),
            only=[one.group.end for one in load] if len(load) > 1 else None,
        )
        self.line.target.commit()
        self._shipped = True
        faults.point("stream.after_ship")

    def _apply(self, piece: Piece) -> Delivered | None:
        """Apply a piece; None if the push has to apply it in its turn."""
        unit = compiled.unit_of(self.line, self.origin, piece.group)
        if _unheld(unit):
            return None
        answer = compiled.attempt(self.line, self.origin, unit, patient=False)
        return None if isinstance(answer, Refused) or answer.resolved else answer

    def _commit(
        self,
        piece: Piece,
        delivered: Delivered,
        turns: Turns,
        done: Callable[[Piece, Delivered], bool],
    ) -> bool:
        target = self.line.target
        if not marker.advance(target, self.origin.id, piece.at, piece.to):
            turns.halt(piece.place)  # another pusher has gone on
            self._undo()
            return False
        group = piece.group
        arrived = arrivals.of_part(self.line, self.origin.name, group.after, group.end)
        arrivals.count(target, self.origin.name, arrived)
        faults.point("stream.before_commit")
        target.commit()
        faults.point("stream.after_commit")
        if not done(piece, delivered):
            turns.halt(piece.place + 1)
        turns.pass_on()
        return True

    def _undo(self) -> None:
        for connection in (self.line.target, self.line.origin):
            connection.rollback()


def _unheld(unit: Unit) -> bool:
    """Whether it needs keys to be absent that other streams might still insert.

    `deferred.pushing.dependence` finds transactions of one key by the key's text; keys
    of some types are equal although their texts differ.
    """
    return any(
        (count.get("A") or count.get("N"))
        and not all(staged.table.column(name).exact for name in staged.identity)
        for staged, count in zip(unit.staged, unit.counts, strict=True)
    )
