"""Pausing Python's garbage collector while thousands of small values are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """Pause the garbage collector during a block that makes no cyclic values.

    Each collection would look at all objects of the program: that takes a third of
    Python's time in a push of 10,000 conflicts. Values without references are freed
    without it; cycles that a custom routine makes are freed at the next collection,
    after at most a chunk of rows. If two threads pause it, the one that came first ends
    the pause for both.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
