"""Doing something in the middle of work of ours: at one of its fault points."""

from __future__ import annotations

from collections.abc import Callable


class AtPoint:
    """Does something once when work comes to a point."""

    def __init__(self, wanted: str, action: Callable[[], None], nth: int = 1) -> None:
        self._wanted, self._action, self._left = wanted, action, nth

    def point(self, name: str) -> None:
        """Take the place of `faults.point`."""
        if name == self._wanted:
            self._left -= 1
            if self._left == 0:
                self._action()

    @property
    def reached(self) -> bool:
        """Whether it has done it."""
        return self._left <= 0
