"""Turns: what is done side by side and committed in order, one at a time.

Places are numbered from 0. Whoever holds a place waits until all before it are
committed; a halt at a place keeps it, and all after it, from being committed.
"""

from __future__ import annotations

from threading import Condition

#: Seconds for which work that is done waits for its turn with rows locked. After that
#: users have them, and it is done again.
PATIENCE = 10.0


class Turns:
    """Who may commit; shared by the threads that work side by side."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._done = 0
        self._halt = 0

    @property
    def done(self) -> int:
        """How many are committed: all before this place."""
        return self._done

    def open(self, until: int) -> None:
        """Let those before a place go on."""
        with self._changed:
            self._halt = until

    def halt(self, place: int) -> None:
        """Let this one, and those after it, not be committed."""
        with self._changed:
            self._halt = min(self._halt, place)
            self._changed.notify_all()

    def reached(self, place: int, before: int) -> bool:
        """Wait until another is committed; False where this one is halted."""
        with self._changed:
            self._changed.wait_for(lambda: self._done > before or self._halt <= place)
            return self._halt > place

    def take(self, place: int) -> bool:
        """Wait for one's turn; False, and a halt, where it does not come in time."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._done == place or self._halt <= place, timeout=PATIENCE
            )
            if self._done < place:
                self._halt = min(self._halt, place)
                self._changed.notify_all()
            return self._halt > place

    def pass_on(self) -> None:
        """Give the turn, which the caller has, to the next."""
        with self._changed:
            self._done += 1
            self._changed.notify_all()
