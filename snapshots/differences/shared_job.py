"""Lets refreshes that run at the same time share Spark jobs.

A job costs a tenth of a second whatever it does, and several small ones get in each
other's way. So one runs at a time, and the next compares all that threads have asked
for meanwhile. A thread never waits so that others can join its job.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

#: One job compares about so many images together, or so many bytes of them.
MOST, MOST_BYTES = 100_000, 64 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Images of one snapshot at both sides, with the columns `c1` to `cn`."""

    master: pa.Table
    present: pa.Table
    key: list[str]
    columns: list[str]

    @property
    def rows(self) -> int:
        """How many images there are, of both sides."""
        return int(self.master.num_rows + self.present.num_rows)

    @property
    def share(self) -> float:
        """The share that it has of a job; with 1 or more, it fills one by itself."""
        size = self.master.nbytes + self.present.nbytes
        return max(self.rows / MOST, int(size) / MOST_BYTES)


@dataclass(slots=True, eq=False)
class _Request:
    """What one thread wants compared."""

    pairs: Sequence[Pair]
    #: a job has taken it
    taken: bool = False
    #: what that job found; None if it failed
    found: list[pa.Table] | None = None

    @property
    def share(self) -> float:
        return sum(pair.share for pair in self.pairs)


@dataclass(slots=True)
class SharedJobs:
    """The jobs of a process that compare few rows, one after the other."""

    #: compares pairs in one job, and returns their differences in the same order
    compare: Callable[[Sequence[Pair]], list[pa.Table]]
    _running: threading.Lock = field(default_factory=threading.Lock)
    _waiting: SimpleQueue[_Request] = field(default_factory=SimpleQueue)

    def differences(self, pairs: Sequence[Pair]) -> list[pa.Table]:
        """The difference of each pair; pairs that fill a job run at once, in their own.

        If a job of several threads fails, each compares its own pairs in another one:
        so none gets an error that is not its own.
        """
        own = _Request(pairs)
        if own.share >= 1:
            return self.compare(pairs)
        self._waiting.put(own)
        with self._running:
            while not own.taken:
                self._run_next()
        return self.compare(pairs) if own.found is None else own.found

    def _run_next(self) -> None:
        """Run one job for waiting requests, of which one may be this thread's.

        Its error is raised only if it had one request, and that is this thread's: after
        one of another thread, which does not fill a job, it takes a second.
        """
        taken = list(self._take())
        try:
            found = iter(self.compare([pair for one in taken for pair in one.pairs]))
        except Exception:
            if len(taken) == 1:
                raise
            return
        for one in taken:
            one.found = [next(found) for _ in one.pairs]

    def _take(self) -> Iterator[_Request]:
        """Take the requests for one job, in the order in which they came."""
        share = 0.0
        while share < 1:
            try:
                one = self._waiting.get_nowait()
            except Empty:
                return
            one.taken = True
            share += one.share
            yield one
