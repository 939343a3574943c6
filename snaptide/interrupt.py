"""Makes sure that Ctrl-C ends a command, even when Python drops the exception."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

#: The signals that end a command.
SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Have Ctrl-C and SIGTERM end the block, wherever they arrive; main thread only.

    Python drops the exception that a signal raises in a destructor or in the callback
    of a weak reference. So this yields a function that says whether a signal has
    come, and long work asks it wherever it may end.

    Raises:
        KeyboardInterrupt: where the signal came, else after the block.
    """
    asked = False

    def interrupt(signum: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        raise KeyboardInterrupt

    def tell(lost: UnraisableHookArgs) -> None:
        if not isinstance(lost.exc_value, KeyboardInterrupt):
            hook(lost)

    before = {one: signal.signal(one, interrupt) for one in SIGNALS}
    hook, sys.unraisablehook = sys.unraisablehook, tell
    try:
        yield lambda: asked
    finally:
        sys.unraisablehook = hook
        for one, handler in before.items():
            signal.signal(one, handler)
    if asked:
        raise KeyboardInterrupt
