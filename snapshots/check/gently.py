"""Reads tables in steps that a busy database hardly feels.

Each step reads a range of pages in one statement, which the server ends after
`LONGEST_STATEMENT`; then a shorter range is tried. Between two steps the database rests
for as long as the step took, and longer while steps are slower than they have been:
somebody else needs it then. All steps of a side are in one transaction of one moment:
together they read what one statement would.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from psycopg.errors import QueryCanceled
from sqlalchemy import Connection, Select, func, select
from sqlalchemy.exc import DBAPIError

from sites.conditions import ranges
from sites.conditions.ranges import Range
from sites.names import QualifiedName
from sites.transfer import arrow
from snapshots.differences import buckets, images
from snapshots.differences.buckets import Differing, Sums
from snapshots.differences.images import Layout
from snapshots.differences.window import Member
from snapshots.side import Side, Sides
from snaptide_imports import lazily

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazily("pyarrow")

#: Seconds after which the server ends a statement. Only one that reads a single page
#: may take longer, as its rows may be of any size.
LONGEST_STATEMENT = 0.9

#: Seconds that a step should take.
STEP = 0.25

#: How many pages the first step reads.
FIRST_PAGES = 256

#: The longest rest between two steps, in seconds.
LONGEST_REST = 5.0

#: What a page takes at best counts for so much more with each step. Pages of the
#: beginning may have been in memory, and say little of those that are not.
AGEING = 1.02

T = TypeVar("T")

#: A query that reads a range of pages.
Query = Callable[[Range], Select[Any]]


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


def differing(sides: Sides, member: Member) -> Differing:
    """Find the buckets in which a snapshot and its defining query differ."""
    layout = images.layout(member)
    there, here = _both(
        lambda: _sums(sides.master, member.snapshot.master, layout, _master(member)),
        lambda: _sums(sides.site, member.snapshot.base, layout, _present(member)),
    )
    return buckets.compared([there, here])


def rows(
    sides: Sides, member: Member, numbers: Sequence[int]
) -> tuple[pa.Table, pa.Table]:
    """The images of both sides that fall into these buckets."""
    layout = images.layout(member)

    def read(side: Side, table: QualifiedName, query: Query) -> pa.Table:
        found = _steps(
            side,
            table,
            lambda part: buckets.within(query(part), layout, numbers),
            layout.schema,
        )
        return pa.concat_tables([layout.schema.empty_table(), *found])

    return _both(
        lambda: read(sides.master, member.snapshot.master, _master(member)),
        lambda: read(sides.site, member.snapshot.base, _present(member)),
    )


def _master(member: Member) -> Query:
    return lambda part: images.at_master(member, part)


def _present(member: Member) -> Query:
    return lambda part: images.present(member, part)


def _both(there: Callable[[], T], here: Callable[[], T]) -> tuple[T, T]:
    """Do both at the same time, each in the transaction of its side."""
    with ThreadPoolExecutor(max_workers=1) as beside:
        theirs = beside.submit(there)
        ours = here()
        return theirs.result(), ours


def _sums(side: Side, table: QualifiedName, layout: Layout, query: Query) -> list[Sums]:
    """The sums of each bucket, added up step by step."""
    found: dict[int, tuple[int, int, int]] = {}
    steps = _steps(
        side,
        table,
        lambda part: buckets.sums(layout, [query(part)]),
        arrow.schema(buckets.SUMS),
    )
    for step in steps:
        for number, count, one, two in buckets.listed(step):
            counted, first, second = found.get(number, (0, 0, 0))
            found[number] = (counted + count, first ^ one, second ^ two)
    return [(number, *rest) for number, rest in found.items()]


def _steps(
    side: Side, table: QualifiedName, query: Query, shape: pa.Schema
) -> Iterator[pa.Table]:
    """What a query finds in each range of pages of a table and its partitions."""
    pace = _Pace()
    for leaf, pages in ranges.pages_of(side.at, table):
        first = 0
        while first == 0 or first < pages:
            count = min(pace.pages, max(pages - first, 1))
            # The last range has no end: the table may have grown.
            end = first + count if first + count < pages else None
            start = first if pages else None
            part = Range(table=leaf, first=start, end=end)
            began = time.monotonic()
            found = _read(side, query(part), shape, bounded=count > 1)
            taken = time.monotonic() - began
            if found is None:
                pace.shorten()
                continue
            yield found
            time.sleep(pace.done(count, taken))
            first += count


def _read(
    side: Side, query: Select[Any], shape: pa.Schema, *, bounded: bool
) -> pa.Table | None:
    """Read a step; None if the server ended it because it took too long."""
    if not bounded:
        return side.read(query, shape, many=False)
    try:
        with side.at.begin_nested(), _timeout(side.at, LONGEST_STATEMENT):
            return side.read(query, shape, many=False)
    except DBAPIError as error:
        if isinstance(error.orig, QueryCanceled):
            return None
        raise


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
