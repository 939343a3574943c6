"""The functions that long work calls from time to time with how far it has come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Progress(Protocol):
    """Receives the progress of the work."""

    def __call__(self, done: int, total: int | None, unit: str) -> None: ...


#: Receives the number of rows that one step of the work has sent or written.
RowsDone = Callable[[int], None]
