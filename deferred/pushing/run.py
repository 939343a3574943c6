"""One run of a push: its counts so far, and when it has to stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from deferred.batches.relay import NO_GROUP, Relay
from deferred.options import PushOptions
from deferred.pushing.delivery import Delivered
from deferred.pushing.report import Token
from sites.progress import Progress, RowsDone

#: A shipment of at least this many calls reports its own progress.
MANY = 50_000


@dataclass(slots=True, kw_only=True)
class Run:
    """The counts of a push so far, and when it has to stop."""

    options: PushOptions
    progress: Progress | None = None
    #: whether the caller wants it to end
    stop: Callable[[], bool] | None = None
    began: float = field(default_factory=time.monotonic)
    transactions: int = 0
    calls: int = 0
    #: the calls done, and those that waited when they were last counted
    total: int = 0
    resolved: int = 0
    #: how often users held rows since something was delivered
    held_up: int = 0
    error_ids: list[int] = field(default_factory=list)
    #: how many were parked because their group is quiet at the destination
    held_back: int = 0
    #: a batch with more calls is left to another push; None is no limit
    most_calls: int | None = None
    #: it ended before the queue was empty
    unfinished: bool = False
    #: how many of this site's transactions the destination had parked before
    parked: int = 0
    #: what the push does for replication groups
    relay: Relay = NO_GROUP
    #: whether columns of the origin draw numbers that the destination leases
    numbered: bool = False
    #: of a moment of the destination that has what was pushed
    token: Token | None = None
    #: makes both sides remember the contact, and returns what waits for the end of
    #: that; None after it
    meet: Callable[[], Callable[[], None]] | None = None

    @property
    def met(self) -> bool:
        """Whether a batch has begun."""
        return self.meet is None

    @contextmanager
    def beginning(self) -> Iterator[None]:
        """Make both sides remember this contact, before the first batch.

        The end of that is waited for after the block.
        """
        if self.meet is None:
            yield
            return
        end = self.meet()
        yield
        end()
        self.meet = None

    def count(self, delivered: Delivered, *, transactions: int, calls: int) -> None:
        """Count transactions that were committed at the destination."""
        self.held_up = 0
        if delivered.fresh:
            self.transactions += transactions
            self.calls += calls
            self.resolved += delivered.resolved
            if delivered.held:
                self.held_back += 1
            elif delivered.error_id is not None:
                self.error_ids.append(delivered.error_id)
        self._tell()

    def expect(self, waiting: Callable[[], int]) -> None:
        """Count the waiting calls before a batch, if all known ones are done.

        Parameters:
            waiting: counts the calls that wait; not called without a progress function.
        """
        if self.progress and self.calls >= self.total:
            self.total = self.calls + waiting()
            self._tell()

    def shipping(self, calls: int) -> RowsDone | None:
        """The function to call with the number of changes sent to the destination.

        Their total is known only after the shipment; until then the number of calls
        is its upper limit. None if the shipment is small, or progress is not wanted.
        """
        return self._of_many(calls, "changes sent")

    def writing(self, calls: int) -> RowsDone | None:
        """The same for changes that are written at the destination."""
        return self._of_many(calls, "changes written")

    def _of_many(self, calls: int, unit: str) -> RowsDone | None:
        if self.progress is None or calls < MANY:
            return None
        tell = self.progress
        return lambda changes: tell(min(changes, calls), calls, unit)

    def left(self) -> int | None:
        """How many transactions may still be delivered; None means any number."""
        if not self.options.transaction_count:
            return None
        return max(self.options.transaction_count - self.transactions, 0)

    @property
    def too_many_errors(self) -> bool:
        """Whether the destination has parked as many as `error_limit` allows."""
        return 0 < self.options.error_limit <= self.parked + len(self.error_ids)

    def leaves(self, calls: int) -> bool:
        """Whether a batch is too large for this run, which is over then."""
        if self.most_calls is not None and calls > self.most_calls:
            self.unfinished = True
        return self.unfinished

    def over(self, uncommitted: int = 0) -> bool:
        """Whether to stop, given how many transactions still have to be committed."""
        left, options = self.left(), self.options
        return (
            self.unfinished
            or (options.stop_on_error and bool(self.error_ids))
            or self.too_many_errors
            or (self.stop is not None and self.stop())
            or (left is not None and left <= uncommitted)
            or 0 < options.execution_seconds <= time.monotonic() - self.began
        )

    def _tell(self) -> None:
        if self.progress:
            self.progress(self.calls, max(self.total, self.calls), "calls")
