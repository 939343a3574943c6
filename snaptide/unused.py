"""A worker closes connections to sites that it has not used for a while.

It keeps some, because the next refreshes use them again. But a master of a thousand
sites may have a worker for each of them, and most have nothing to do: the connections
that these keep would be the ones that others wait for.
"""

from __future__ import annotations

from typing import Any

from celery import bootsteps

from sites.configured import configured

#: Seconds without use after which the connections to a site are closed.
UNUSED = 60.0

#: Seconds after which those are that only the last burst of work needed, and between
#: two looks.
EXTRA = LOOKS = 5.0


class CloseUnused(bootsteps.StartStopStep):
    """The step by which Celery has each worker look from time to time."""

    requires = ("celery.worker.components:Timer",)

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        self._timed: Any = None

    def start(self, parent: Any) -> None:
        """Look from now on."""
        self._timed = parent.timer.call_repeatedly(LOOKS, close_unused)

    def stop(self, parent: Any) -> None:
        """Look no more; the connections end with the worker."""
        if self._timed is not None:
            self._timed.cancel()
            self._timed = None

    terminate = stop


def close_unused() -> None:
    """Close idle connections to each site: most soon, the last few after a while."""
    for site in configured().directory.values():
        site.keep_few(EXTRA)
        site.close_unused(UNUSED)
