"""Reads both sides of snapshots in parts, and tells how far it has come.

All parts of a side are read in one transaction of one moment: together they are what
one statement would read. `AtOnce` has large parts; those of `snapshots.check.gently`
are small.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import Select

from sites.conditions import ranges
from sites.conditions.ranges import Range
from sites.extras import pa
from sites.names import QualifiedName
from sites.progress import Progress
from sites.transfer import arrow
from snapshots import keys
from snapshots.differences import buckets, images
from snapshots.differences.buckets import Differing
from snapshots.differences.window import Member
from snapshots.keys import Keys, Side, Sides

#: How many pages a statement reads that need not be short: 128 MB, if they have the
#: usual size. PostgreSQL sums up so many rows in a second or two, and the 2^15 sums
#: that each statement returns cost little beside that.
PART_PAGES = 16384

T = TypeVar("T")

#: Tables that hold the rows of a table, each with its number of pages.
Leaves = Sequence[tuple[QualifiedName, int]]
#: The query that reads a range of pages.
Query = Callable[[Range], Select[Any]]
#: Reads some ranges by one statement.
Read = Callable[[Sequence[Range]], "pa.Table"]


class Reader(ABC):
    """Reads both sides at the same time, each part by part."""

    def __init__(
        self,
        sides: Sides,
        members: Sequence[Member] = (),
        progress: Progress | None = None,
    ) -> None:
        """Begin with nothing read.

        Parameters:
            members: snapshots whose rows will all be read once.
            progress: is told how many pages have been read, of both sides of all of
                these snapshots; pages that are read again are counted again.
        """
        self.sides = sides
        self._progress, self._lock = progress, Lock()
        self._done = self._total = 0
        self._leaves: dict[str, tuple[Leaves, Leaves]] = {}
        for member in members:
            self.expect(member)

    def expect(self, member: Member, times: int = 1) -> None:
        """Count all pages of a snapshot, because they will be read so often."""
        both = self._leaves_of(member)
        self._total += times * sum(max(n, 1) for leaves in both for _, n in leaves)

    def differing(self, member: Member) -> Differing:
        """Find the buckets in which a snapshot and its defining query differ."""
        layout, shape = images.layout(member), arrow.schema(buckets.SUMS)
        ask = partial(buckets.sums, layout, of=buckets.BUCKETS)
        there, here = self._both(member, ask, shape, _added_up, many=False)
        return buckets.compared([there, here], buckets.BUCKETS)

    def rows(
        self, member: Member, found: Differing, *, many: bool = False
    ) -> tuple[pa.Table, pa.Table]:
        """The images of both sides that fall into the buckets that differ.

        Parameters:
            many: whether they are likely more than a few.
        """
        layout = images.layout(member)

        def ask(queries: Sequence[Select[Any]]) -> Select[Any]:
            some = (buckets.within(query, layout, found) for query in queries)
            return sa.select(*sa.union_all(*some).subquery().c)

        def together(parts: Iterator[pa.Table]) -> pa.Table:
            return pa.concat_tables([layout.schema.empty_table(), *parts])

        return self._both(member, ask, layout.schema, together, many=many)

    @abstractmethod
    def of_keys(self, wanted: Keys, ask: Callable[[Keys], T]) -> Iterator[T]:
        """Ask about rows with these keys, some of them at a time.

        Parameters:
            wanted: keys, with other columns or without.
            ask: is given some of them, and may read at both sides.
        """

    @abstractmethod
    def _parts(
        self, side: Side, leaves: Leaves, read: Read
    ) -> Iterator[tuple[pa.Table, int]]:
        """Read all pages of some tables: what is found, and how many pages it took."""

    def _both(
        self,
        member: Member,
        ask: Callable[[Sequence[Select[Any]]], Select[Any]],
        shape: pa.Schema,
        take: Callable[[Iterator[pa.Table]], T],
        *,
        many: bool,
    ) -> tuple[T, T]:
        """Read both sides at the same time, each in its transaction.

        Parameters:
            ask: makes one query of those that read ranges of pages.
            take: is given what each statement has found.
        """
        there, here = self._leaves_of(member)

        def work(side: Side, leaves: Leaves, query: Query) -> T:
            def read(parts: Sequence[Range]) -> pa.Table:
                return side.read(ask([*map(query, parts)]), shape, many=many)

            return take(self._told(self._parts(side, leaves, read)))

        with ThreadPoolExecutor(max_workers=1) as beside:
            master, site = self.sides.master, self.sides.site
            theirs = beside.submit(
                work, master, there, partial(images.at_master, member)
            )
            ours = work(site, here, partial(images.present, member))
            return theirs.result(), ours

    def _leaves_of(self, member: Member) -> tuple[Leaves, Leaves]:
        snapshot, sides = member.snapshot, self.sides
        if snapshot.key not in self._leaves:
            self._leaves[snapshot.key] = (
                ranges.pages_of(sides.master.at, snapshot.master),
                ranges.pages_of(sides.site.at, snapshot.base),
            )
        return self._leaves[snapshot.key]

    def _told(self, parts: Iterator[tuple[pa.Table, int]]) -> Iterator[pa.Table]:
        for found, pages in parts:
            # Both sides may tell at the same time.
            with self._lock:
                self._done += pages
                if self._progress is not None:
                    self._progress(self._done, self._total, "pages")
            yield found


class AtOnce(Reader):
    """Reads as much by one statement as is sensible."""

    def of_keys(self, wanted: Keys, ask: Callable[[Keys], T]) -> Iterator[T]:
        """Ask about as many keys as a statement takes."""
        yield from map(ask, keys.chunks(wanted))

    def _parts(
        self, side: Side, leaves: Leaves, read: Read
    ) -> Iterator[tuple[pa.Table, int]]:
        for parts, pages in divided(leaves):
            yield read(parts), pages


def divided(leaves: Leaves) -> Iterator[tuple[list[Range], int]]:
    """Ranges that have about `PART_PAGES` together, and how many pages they have."""
    parts, size = list[Range](), 0
    for leaf, pages in leaves:
        for first in range(0, max(pages, 1), PART_PAGES):
            end = first + PART_PAGES
            # The last range has no end: the table may have grown.
            parts.append(
                Range(
                    table=leaf,
                    first=first if pages > PART_PAGES else None,
                    end=end if end < pages else None,
                )
            )
            size += max(min(pages, end) - first, 1)
            if size >= PART_PAGES:
                yield parts, size
                parts, size = [], 0
    if parts:
        yield parts, size


def _added_up(steps: Iterator[pa.Table]) -> pa.Table:
    """The sums of each bucket, added up part by part."""
    found: dict[int, tuple[int, int, int]] = {}
    for step in steps:
        for number, count, one, two in zip(*step.to_pydict().values(), strict=True):
            counted, first, second = found.get(number, (0, 0, 0))
            found[number] = (counted + count, first ^ one, second ^ two)
    shape = arrow.schema(buckets.SUMS)
    if not found:
        return shape.empty_table()
    return pa.table([[*found], *zip(*found.values(), strict=True)], schema=shape)
