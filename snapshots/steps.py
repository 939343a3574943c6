"""How long each step of a refresh took."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

#: The steps of a refresh, in their order; most refreshes lack some of them. What is
#: done after the merge has committed is in none.
PUSH, ASK, START, WINDOW, COMPARE, LOAD, MERGE = STEPS = (
    "push",
    "ask",
    "start",
    "window",
    "compare",
    "load",
    "merge",
)


@dataclass(slots=True, kw_only=True)
class Steps:
    """The seconds of each step of a refresh so far; of several turns, their sum.

    Parameters:
        clock: tells seconds.
    """

    clock: Callable[[], float] = time.monotonic
    #: the step that runs; None before the first
    now: str | None = None
    _since: float = 0.0
    _seconds: dict[str, float] = field(default_factory=dict)

    def begin(self, step: str) -> None:
        """End the step that runs, and begin another, or the same again."""
        at = self.clock()
        if self.now is not None:
            self._seconds[self.now] = self._so_far(at)
        self.now, self._since = step, at

    @property
    def seconds(self) -> Mapping[str, float]:
        """By step, in the order of `STEPS`; the one that runs counts until now."""
        found = dict(self._seconds)
        if self.now is not None:
            found[self.now] = self._so_far(self.clock())
        return {name: found[name] for name in STEPS if name in found}

    def _so_far(self, at: float) -> float:
        assert self.now is not None
        return self._seconds.get(self.now, 0.0) + at - self._since
