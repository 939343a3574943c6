"""A moment of a master, and how far it had answered the changes of the site by then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar, cast

from sqlalchemy import Connection

from deferred.batches.marker import Marker

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What tells changes of the site that are pending from those that are answered."""

    position: str
    marker: Marker


class Facts:
    """What a master says at one moment that is the same for all who read in it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: dict[tuple[object, ...], object] = {}

    def once(
        self, read: Callable[..., Found], master: Connection, *of: object
    ) -> Found:
        """What a function reads of some objects, which is asked only once.

        Parameters:
            master: in the moment.
        """
        key = (read, *of)
        with self._lock:
            if key not in self._kept:
                self._kept[key] = read(master, *of)
            return cast("Found", self._kept[key])
