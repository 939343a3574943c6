"""Finds the rows that differ: by sums of buckets first, and then by Spark.

Only rows of buckets that differ leave their database, and only keys come back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import sqlalchemy as sa

from sites.conditions import ranges
from snapshots import keys
from snapshots.check import gently
from snapshots.differences import buckets, comparison, difference, images, large
from snapshots.differences.buckets import Differing
from snapshots.differences.packed import Pair
from snapshots.differences.window import Member
from snapshots.keys import Keys
from snapshots.side import FEW, Sides
from snaptide_imports import lazily

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazily("pyarrow")

#: How many differing rows this process looks at together.
SLICE = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """How many rows a snapshot has, and those that differ."""

    member: Member
    sums: Differing
    #: tables with the columns `kind`, `differs` and k1, k2, ... (`spark.diff.rows`)
    rows: Iterator[pa.Table]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """Rows of the buckets of a snapshot that differ, in this process."""

    member: Member
    sums: Differing
    pair: Pair


def whole(member: Member) -> Member:
    """A snapshot with all its columns compared, also those that the site computes.

    It may compute them from another expression, or with other functions.
    """
    columns = tuple(replace(one, generated="") for one in member.base.columns)
    return replace(member, base=replace(member.base, columns=columns))


def differing(
    sides: Sides, members: Sequence[Member], *, gentle: bool = False
) -> Iterator[Found]:
    """Compare snapshots with their defining queries, in any order.

    Rows are read when asked for; those of small snapshots are compared together.

    Parameters:
        gentle: read in short steps (`snapshots.check.gently`).
    """
    read: list[_Read] = []
    for member in members:
        some = comparison.most_rows(sides.master, member.snapshot.master)
        if gentle:
            yield _found_gently(sides, member, some)
            continue
        sums = buckets.differing(sides, member, many=False)
        if not sums.numbers:
            yield Found(member=member, sums=sums, rows=iter(()))
        elif sums.rows > some:
            rows = _whole(sides, member, _large(sides, member, sums))
            yield Found(member=member, sums=sums, rows=rows)
        else:
            pair = _small(sides, member, sums)
            read.append(_Read(member=member, sums=sums, pair=pair))
        if sum(one.pair.rows for one in read) >= comparison.TOGETHER:
            yield from _together(sides, read)
            read = []
    yield from _together(sides, read)


def _found_gently(sides: Sides, member: Member, some: int) -> Found:
    sums = gently.differing(sides, member)
    rows = _whole(sides, member, _gently(sides, member, sums, some))
    return Found(member=member, sums=sums, rows=rows)


def _gently(
    sides: Sides, member: Member, sums: Differing, some: int
) -> Iterator[pa.Table]:
    """Compare the rows of some buckets after the others, about so many at a time."""
    rounds = -(-sums.rows // max(some, 1))
    size = max(len(sums.numbers) // max(rounds, 1), 1)
    for first in range(0, len(sums.numbers), size):
        numbers = sums.numbers[first : first + size]
        theirs, present = gently.rows(sides, member, numbers)
        yield from difference.rows([_pair(member, theirs, present)])


def _together(sides: Sides, read: Sequence[_Read]) -> Iterator[Found]:
    found = difference.rows([one.pair for one in read])
    for one, table in zip(read, found, strict=True):
        rows = _whole(sides, one.member, iter([table]))
        yield Found(member=one.member, sums=one.sums, rows=rows)


def _small(sides: Sides, member: Member, sums: Differing) -> Pair:
    layout = images.layout(member)
    queries = [
        sa.union_all(
            *(
                buckets.within(read(member, part), layout, sums.numbers)
                for part in ranges.ctid_ranges(side.at, table, parts=1)
            )
        )
        for side, read, table in (
            (sides.master, images.at_master, member.snapshot.master),
            (sides.site, images.present, member.snapshot.base),
        )
    ]
    there, here = (sa.select(*query.subquery().c) for query in queries)
    theirs, present = sides.read(there, here, layout.schema, many=sums.rows > FEW)
    return _pair(member, theirs, present)


def _large(sides: Sides, member: Member, sums: Differing) -> Iterator[pa.Table]:
    some = sums.numbers if len(sums.numbers) * 2 < buckets.BUCKETS else None
    there, here = comparison.of_all(sides, member, some)
    yield from difference.many_rows(
        large.source(sides.master, there),
        large.source(sides.site, here),
        images.schema(member),
        images.key_positions(member),
        SLICE,
    )


def of_keys(sides: Sides, member: Member, wanted: Keys) -> Iterator[pa.Table]:
    """Look at the rows with these keys alone; they are read when asked for.

    Parameters:
        wanted: keys as the databases print them; one may be there in two spellings.

    Returns:
        Tables as of `Found`.
    """
    shape = images.schema(member)
    for some in keys.chunks(wanted):
        if not some.num_rows:
            continue
        theirs, present = sides.read(
            images.of_keys(member, some, once=True),
            images.present_of_keys(member, some, once=True),
            shape,
            many=some.num_rows > FEW,
        )
        yield from difference.rows([_pair(member, theirs, present)])


def _whole(
    sides: Sides, member: Member, found: Iterator[pa.Table]
) -> Iterator[pa.Table]:
    """Look at the rows whatever the condition of the check says of either side.

    A row that fulfils it at one side alone is there at the other side, too.
    """
    if member.only is None:
        yield from found
        return
    names, everywhere = list(member.snapshot.key_names), replace(member, only=None)
    for table in found:
        yield from of_keys(sides, everywhere, keys.distinct(table.select(names)))


def _pair(member: Member, theirs: pa.Table, present: pa.Table) -> Pair:
    return Pair(
        master=theirs,
        present=present,
        key=images.key_positions(member),
        columns=images.positions(member),
    )
