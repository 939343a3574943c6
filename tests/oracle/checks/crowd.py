"""Users, pushes, refreshes and operators, all at once, each in a thread of its own."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

#: Does one thing, over and over.
Work = Callable[[], None]


@contextmanager
def busy(works: Sequence[tuple[Work, float]], failed: list[str]) -> Iterator[None]:
    """Repeat each work with a pause, in seconds, as long as the block runs.

    Parameters:
        failed: gets what one of them has raised, which is then not repeated.
    """
    ended = threading.Event()

    def repeat(work: Work, pause: float) -> None:
        try:
            while not ended.wait(pause):
                work()
        except Exception as error:
            # Its message may be a whole statement.
            where = "".join(traceback.format_tb(error.__traceback__))[-4000:]
            failed.append(f"{type(error).__name__}: {str(error)[:500]}\n{where}")

    threads = [threading.Thread(target=repeat, args=one) for one in works]
    for one in threads:
        one.start()
    try:
        yield
    finally:
        ended.set()
        for one in threads:
            one.join()
