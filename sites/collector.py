"""Python's garbage collector, held back while thousands of small values are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """Let nobody look for cycles among values that have none.

    Each time the collector would look at all that the program holds: a third of
    what Python does in a push of 10,000 conflicts. Values go without it as soon as
    nobody needs them; a custom routine's that refer to each other go with the next
    look, after at most a chunk of rows. Where two threads pause, the first to come
    lets it go on.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
