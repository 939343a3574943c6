"""Users, pushes, refreshes and operators, all at once, each in a thread of its own."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

#: Does one thing, over and over.
Work = Callable[[], None]


class Pace:
    """How much a crowd may do: for each step of the test, what it does in some seconds.

    Otherwise a slow machine has users write more during a step, which then takes longer
    still.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._granted = seconds
        self._ended = False
        self._changed = threading.Condition()

    def step(self) -> None:
        """The test goes on to its next step, and the crowd may go on as well."""
        with self._changed:
            self._granted += self._seconds
            self._changed.notify_all()

    def end(self) -> None:
        """Nobody is to go on."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def goes_on(self, used: float, pause: float) -> bool:
        """Pause, and wait until more is granted than is used; false at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended, pause)
            self._changed.wait_for(lambda: self._ended or used < self._granted)
            return not self._ended


@contextmanager
def busy(
    works: Sequence[tuple[Work, float]], failed: list[str], seconds: float
) -> Iterator[Pace]:
    """Repeat each work with a pause, in seconds, as long as the block runs.

    The pause is at least as long as the work took.

    Parameters:
        failed: gets what one of them has raised, which is then not repeated.
        seconds: of so many pauses is what each does in a step of the test, at most.
    """
    pace = Pace(seconds)

    def repeat(work: Work, pause: float) -> None:
        used = took = 0.0
        try:
            while pace.goes_on(used, max(pause, took)):
                begun = time.monotonic()
                work()
                took = time.monotonic() - begun
                used += pause
        except Exception as error:
            # Its message may be a whole statement.
            where = "".join(traceback.format_tb(error.__traceback__))[-4000:]
            failed.append(f"{type(error).__name__}: {str(error)[:500]}\n{where}")

    threads = [threading.Thread(target=repeat, args=one) for one in works]
    for one in threads:
        one.start()
    try:
        yield pace
    finally:
        pace.end()
        for one in threads:
            one.join()
