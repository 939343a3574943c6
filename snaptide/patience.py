"""What goes on for ever, and may fail for hours: wait longer, and say it seldom."""

from __future__ import annotations

import logging
import time

from sites.errors import SnaptideError, in_one_line

#: Seconds between two lines about a trouble that stays as it is, and at least between
#: any two.
SAY_EVERY = 3600.0
SAY_AT_MOST = 60.0

#: Seconds for which what fails is left alone at most.
LONGEST = 15.0


class Trouble:
    """One thing that fails: how long to leave it alone, and whether to say it again."""

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
        """Note a failure; returns the seconds to leave it alone."""
        self._delay = min(self._delay * 2 or self._first, self._longest)
        now = time.monotonic()
        self._until = now + self._delay
        said = _told(error)
        # Said again when it is another one, and now and then for those who come later.
        silent = SAY_EVERY if said == self._said else SAY_AT_MOST
        if self._said_at is None or now - self._said_at >= silent:
            self._said_at, self._said = now, said
            self._log.warning("%s: %s", self._what, said)
        return self._delay

    def over(self) -> None:
        """Note that it works, and say so if it was said that it did not."""
        if self._said_at is not None:
            self._log.info("%s: works again.", self._what)
        self._said_at, self._delay, self._until = None, 0.0, 0.0

    @property
    def resting(self) -> bool:
        """Whether it is left alone at the moment."""
        return time.monotonic() < self._until


def _told(error: Exception) -> str:
    if isinstance(error, SnaptideError):
        return in_one_line(error)
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
