"""Counts failed logins, so that passwords cannot be guessed by trying."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator

#: Failures are remembered for so many seconds.
WINDOW = 5 * 60
#: So many failures of one name from one address, from one address, and of one name.
OF_BOTH, OF_ADDRESS, OF_NAME = 5, 20, 50
#: So many names and addresses are remembered; the oldest go first.
MOST = 10_000


class Attempts:
    """Failed logins of the last minutes, by name and address."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failed: OrderedDict[tuple[str, str], list[float]] = OrderedDict()

    def wait(self, name: str, address: str) -> float:
        """Seconds until a login may be tried again; 0 if it may be now."""
        now = self._clock()
        with self._lock:
            return max(
                (self._left(key, most, now) for key, most in _keys(name, address)),
                default=0,
            )

    def begin(self, name: str, address: str) -> float:
        """Count a login as failed before its password is looked at.

        So many logins at once are counted as if they came one after the other.

        Returns:
            What tells this login from others, for `succeeded`.
        """
        now = self._clock()
        with self._lock:
            for key, _ in _keys(name, address):
                recent = [at for at in self._failed.get(key, ()) if now - at < WINDOW]
                self._failed[key] = [*recent, now][-OF_NAME:]
                self._failed.move_to_end(key)
            while len(self._failed) > MOST:
                self._failed.popitem(last=False)
        return now

    def succeeded(self, name: str, address: str, began: float) -> None:
        """Take back a login that was right after all.

        Other failures of the name from this address go with it. Those of the address,
        and of the name elsewhere, stay: one right password may not hide many guesses.
        """
        with self._lock:
            for key, _ in _keys(name, address):
                failed = self._failed.get(key, [])
                if began in failed:
                    failed.remove(began)
            self._failed.pop((name, address), None)

    def _left(self, key: tuple[str, str], most: int, now: float) -> float:
        recent = [at for at in self._failed.get(key, ()) if now - at < WINDOW]
        return WINDOW - (now - recent[-most]) if len(recent) >= most else 0


def _keys(name: str, address: str) -> Iterator[tuple[tuple[str, str], int]]:
    yield (name, address), OF_BOTH
    yield ("", address), OF_ADDRESS
    yield (name, ""), OF_NAME
