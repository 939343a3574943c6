"""Back-off for work that repeats for ever: longer pauses, and few lines in the log.

Pauses have a random length: what failed for many sites at one moment, because a server,
the broker or the network went, does not come back for all of them at one moment.
"""

from __future__ import annotations

import logging
import random
import time

from sites.errors import SnaptideError, in_one_line
from snaptide.asking import first_line

#: Seconds between two log lines about the same error, and at least between any two.
SAY_EVERY = 3600.0
SAY_AT_MOST = 60.0

#: Seconds of the longest pause after a failure.
LONGEST = 15.0


class BackoffLogger:
    """Failures of one piece of work: when to try again, and whether to log again."""

    def __init__(
        self,
        log: logging.Logger,
        what: str,
        *,
        first: float = 0.5,
        longest: float = LONGEST,
    ) -> None:
        self._log = log
        self._what = what
        self._first = first
        self._longest = longest
        self._delay = 0.0
        self._said_at: float | None = None
        self._said = ""
        self._until = 0.0

    def failed(self, error: Exception) -> float:
        """Note a failure; returns the seconds to wait before the next try."""
        self._delay = min(self._delay * 2 or self._first, self._longest)
        pause = spread(self._delay)
        now = time.monotonic()
        self._until = now + pause
        said = _in_one_line(error)
        # Log another error soon, and the same one every hour for later readers.
        silent = SAY_EVERY if said == self._said else SAY_AT_MOST
        if self._said_at is None or now - self._said_at >= silent:
            self._said_at, self._said = now, said
            self._log.warning("%s: %s", self._what, said)
        return pause

    def over(self) -> None:
        """Note that the work succeeds, and log it if a failure was logged."""
        if self._said_at is not None:
            self._log.info("%s: works again.", self._what)
        self._said_at, self._delay, self._until = None, 0.0, 0.0

    @property
    def resting(self) -> bool:
        """Whether the pause after a failure still lasts."""
        return time.monotonic() < self._until


def spread(seconds: float) -> float:
    """A random length between half of a pause and all of it.

    As `deferred.queues.budget.pause` has it, in SQL.
    """
    return seconds * random.uniform(0.5, 1.0)


def _in_one_line(error: Exception) -> str:
    if isinstance(error, SnaptideError):
        return in_one_line(error)
    return first_line(error)
