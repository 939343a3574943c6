"""The order of commits: threads work in parallel, and commit in order, one at a time.

Places are numbered from 0. The thread that holds a place waits until all places before
it are committed; a halt at a place keeps it, and all after it, from being committed.
"""

from __future__ import annotations

from threading import Condition

#: Seconds for which finished work waits for its turn with rows locked. After that it
#: is rolled back, so that users can have the rows, and is done again.
PATIENCE = 10.0


class CommitOrder:
    """Which place may commit next; shared by the threads that work in parallel."""

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
