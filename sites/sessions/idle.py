"""The sessions in a site's pools that nobody uses, and making room for others."""

from __future__ import annotations

import time
from threading import RLock
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.pool import ConnectionPoolEntry

_OPENED = "snaptide.opened"


class Idle:
    """The idle sessions of some pools, which alone close them only if none is used."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._idle: set[ConnectionPoolEntry] = set()
        self._closed_at = 0.0
        #: when a session was last taken, by the monotonic clock
        self.taken_at = 0.0

    def follow(self, engine: Engine) -> None:
        """Know from now on which sessions of a pool are idle."""
        event.listen(engine, "connect", _note_opened)
        event.listen(engine, "checkout", self._take)
        event.listen(engine, "checkin", self._give)
        event.listen(engine, "close", self._forget)

    def close(self) -> None:
        """Close them, and those that are in use when they are returned."""
        with self._lock:
            self._closed_at = time.monotonic()
            idle, self._idle = self._idle, set()
            for record in idle:
                record.invalidate()

    def _take(self, driver: Any, record: ConnectionPoolEntry, _proxy: object) -> None:
        with self._lock:
            self.taken_at = time.monotonic()
            self._idle.discard(record)
            if driver.closed:
                raise DisconnectionError("The session was closed while it was idle.")

    def _give(self, driver: object, record: ConnectionPoolEntry) -> None:
        if driver is None:
            return  # it broke in use
        with self._lock:
            if _opened_at(record) < self._closed_at:
                record.invalidate()
            else:
                self._idle.add(record)

    def _forget(self, _driver: object, record: ConnectionPoolEntry) -> None:
        with self._lock:
            self._idle.discard(record)


def _opened_at(record: ConnectionPoolEntry) -> float:
    """When a session was opened, by the monotonic clock."""
    found: float = record.info[_OPENED]
    return found


def _note_opened(_driver: object, record: ConnectionPoolEntry) -> None:
    record.info[_OPENED] = time.monotonic()
