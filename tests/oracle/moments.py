"""Something happens at the nth fault point that a push or refresh comes to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sites import faults
from sites.faults import InjectedFault


class Moment:
    """Counts fault points, and acts at one of them, once."""

    def __init__(self, nth: int, act: Callable[[], None], *, fails: bool) -> None:
        self._left = nth
        self._act = act
        self._fails = fails
        self.point: str | None = None

    def __call__(self, name: str) -> None:
        self._left -= 1
        if self._left == 0:
            self.point = name
            self._act()
            if self._fails:
                raise InjectedFault(name)


@contextmanager
def at_nth_point(
    nth: int, act: Callable[[], None], *, fails: bool = False
) -> Iterator[Moment]:
    """Act at the nth fault point that is come to while the block runs.

    Parameters:
        fails: what came there ends with an exception, as if it had been killed.
    """
    moment, usual = Moment(nth, act, fails=fails), faults.point
    faults.point = moment
    try:
        yield moment
    finally:
        faults.point = usual
