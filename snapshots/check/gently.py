"""Reads tables in steps that a busy database hardly feels.

Each step reads a range of pages in one statement, which the server ends after
`LONGEST_STATEMENT`; then a shorter range is tried. Between two steps the database rests
for as long as the step took, and longer while steps are slower than they have been:
somebody else needs it then.

What is asked about rows with given keys is asked about a few of them at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from psycopg.errors import QueryCanceled
from sqlalchemy import Connection, func, select
from sqlalchemy.exc import DBAPIError

from sites.conditions.ranges import Range
from snapshots.check.reader import Leaves, Read, Reader
from snapshots.keys import FEW, Keys, Side

if TYPE_CHECKING:
    import pyarrow as pa

#: Seconds after which the server ends a statement. Only one that reads a single page
#: may take longer, as its rows may be of any size.
LONGEST_STATEMENT = 0.9

#: Seconds that a step should take.
STEP = 0.25

#: How many pages the first step reads.
FIRST_PAGES = 256

#: How many keys are asked about together: at first, and never fewer. What reads logs
#: reads them from the last refresh on, however few they are.
FEWEST_KEYS = 1000

#: The longest rest between two steps, in seconds.
LONGEST_REST = 5.0

#: What a page takes at best counts for so much more with each step. Pages of the
#: beginning may have been in memory, and say little of those that are not.
AGEING = 1.02

T = TypeVar("T")


@dataclass(slots=True)
class _Pace:
    """How many pages a step reads, and how long the rest is after it."""

    pages: int = FIRST_PAGES
    #: the least seconds that a page has taken, older steps counting for more
    _best: float = field(default=float("inf"))

    def done(self, pages: int, seconds: float) -> float:
        """Choose the length of the next step after one; returns the rest, in seconds.

        Parameters:
            seconds: what the step took: more than 0.
        """
        each = seconds / pages
        self._best = min(self._best * AGEING, each)
        self.pages = max(1, int(pages * min(max(STEP / seconds, 0.5), 2.0)))
        return min(seconds * each / self._best, LONGEST_REST)

    def shorten(self) -> None:
        """Read fewer pages: the last step took too long."""
        self.pages = max(1, self.pages // 4)


class Gently(Reader):
    """Reads in short steps, and rests between them."""

    def of_keys(self, wanted: Keys, ask: Callable[[Keys], T]) -> Iterator[T]:
        """Ask about so few keys at a time that it takes about `STEP`.

        Both databases rest after each time for as long as it took.
        """
        both = self.sides.master.at, self.sides.site.at
        count, first = FEWEST_KEYS, 0
        while first < wanted.num_rows:
            some = wanted.slice(first, count)
            work = partial(ask, some)
            began = time.monotonic()
            found = _bounded(both, work) if count > FEWEST_KEYS else work()
            taken = time.monotonic() - began
            if found is None:
                count = max(count // 4, FEWEST_KEYS)
                continue
            yield found
            time.sleep(min(taken, LONGEST_REST))
            first += some.num_rows
            longer = int(count * min(max(STEP / taken, 0.5), 2.0))
            count = min(max(longer, FEWEST_KEYS), FEW)

    def _parts(
        self, side: Side, leaves: Leaves, read: Read
    ) -> Iterator[tuple[pa.Table, int]]:
        pace = _Pace()
        for leaf, pages in leaves:
            first = 0
            while first == 0 or first < pages:
                count = min(pace.pages, max(pages - first, 1))
                # The last range has no end: the table may have grown.
                end = first + count if first + count < pages else None
                start = first if pages else None
                work = partial(read, [Range(table=leaf, first=start, end=end)])
                began = time.monotonic()
                found = _bounded([side.at], work) if count > 1 else work()
                taken = time.monotonic() - began
                if found is None:
                    pace.shorten()
                    continue
                yield found, count
                time.sleep(pace.done(count, taken))
                first += count


def _bounded(connections: Sequence[Connection], work: Callable[[], T]) -> T | None:
    """Do some reading; None if a server ended a statement that took too long."""
    try:
        with ExitStack() as stack:
            for one in connections:
                stack.enter_context(_savepoint(one))
                stack.enter_context(_timeout(one, LONGEST_STATEMENT))
            return work()
    except DBAPIError as error:
        if isinstance(error.orig, QueryCanceled):
            return None
        raise


@contextmanager
def _savepoint(connection: Connection) -> Iterator[None]:
    """Undo what a block does that fails, in a database that is slow, too.

    The timeout holds for the rollback as well: one that the server ends is tried again.
    """
    connection.exec_driver_sql("SAVEPOINT gently")
    try:
        yield
    except BaseException:
        while not _rolled_back(connection):
            pass
        raise
    finally:
        connection.exec_driver_sql("RELEASE SAVEPOINT gently")


def _rolled_back(connection: Connection) -> bool:
    try:
        connection.exec_driver_sql("ROLLBACK TO SAVEPOINT gently")
    except DBAPIError as error:
        if isinstance(error.orig, QueryCanceled):
            return False
        raise
    return True


@contextmanager
def _timeout(connection: Connection, seconds: float) -> Iterator[None]:
    """Have the server end statements that take longer; not those after the block.

    A rollback to a savepoint before the block takes the setting back, too.
    """
    before = connection.scalar(select(func.current_setting("statement_timeout")))
    _set_timeout(connection, f"{seconds * 1000:.0f}ms")
    yield
    _set_timeout(connection, str(before))


def _set_timeout(connection: Connection, value: str) -> None:
    connection.execute(select(func.set_config("statement_timeout", value, True)))
