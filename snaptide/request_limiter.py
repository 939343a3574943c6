"""Limits the requests for pushes that wait in Redis while no worker takes them.

A site whose worker is away goes on committing, and each commit would leave a request
in Redis: a gigabyte a day, which the worker would have to throw away, one by one,
before it works again.
"""

from __future__ import annotations

import time
from collections import deque
from datetime import datetime

#: At most so many requests to push to one destination wait for a worker at once.
ENOUGH = 20


class RequestLimiter:
    """The requests that were sent since the last push to each destination.

    Parameters:
        lasting: seconds after which a request is not worth running any more.
    """

    def __init__(self, lasting: float) -> None:
        self._lasting = lasting
        self._asked: dict[str, deque[float]] = {}
        self._pushed: dict[str, datetime | None] = {}

    def is_enough(self, name: str, pushed_at: datetime | None) -> bool:
        """Whether so many requests wait that one more would change nothing.

        Parameters:
            pushed_at: when the last push to the destination was done.
        """
        asked = self._asked.setdefault(name, deque())
        if pushed_at != self._pushed.get(name):
            self._pushed[name] = pushed_at
            asked.clear()
        while asked and time.monotonic() - asked[0] >= self._lasting:
            asked.popleft()
        return len(asked) >= ENOUGH

    def note(self, name: str) -> None:
        """Note a request that was sent."""
        self._asked.setdefault(name, deque()).append(time.monotonic())
