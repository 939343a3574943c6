"""Says in Redis that a worker is there which refreshes some sites.

Celery's own question to all workers takes a second, because it waits for whoever may
answer. A mark that a worker renews is read in a millisecond, and is gone a few seconds
after its worker. It is a hint: whoever relies on it has to expect that nobody comes.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from snaptide import broker

#: Seconds between two marks, and how long each lasts.
EVERY, LASTS = 2.0, 8.0


class Presence(threading.Thread):
    """Marks sites as served until it is stopped.

    Parameters:
        url: of the broker.
        sites: their names.
    """

    def __init__(self, url: str, sites: Sequence[str]) -> None:
        super().__init__(name="snaptide-presence", daemon=True)
        self.stopping = threading.Event()
        self._url = url
        self._marks = [_mark(site) for site in sites]

    def run(self) -> None:
        """Renew the marks; without the broker, which is soon back, there are none."""
        while not self.stopping.is_set():
            try:
                with broker.client(self._url) as redis:
                    while not self.stopping.is_set():
                        with redis.pipeline(transaction=False) as every:
                            for mark in self._marks:
                                every.set(mark, 1, px=int(LASTS * 1000))
                            every.execute()
                        self.stopping.wait(EVERY)
                    redis.delete(*self._marks)
            except broker.ERRORS:
                self.stopping.wait(EVERY)


def is_served(url: str, site: str) -> bool:
    """Whether a worker says that it refreshes a site; not if the broker is silent."""
    try:
        with broker.client(url) as redis:
            return bool(redis.exists(_mark(site)))
    except broker.ERRORS:
        return False


def _mark(site: str) -> str:
    return f"snaptide.worker.{site}"
