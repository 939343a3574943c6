"""Finds the rows that differ: by sums of buckets first, and then by Spark.

Only rows of buckets that differ leave their database, and only keys come back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sites.extras import pa
from snapshots import keys
from snapshots.check.gently import Gently
from snapshots.check.reader import Reader
from snapshots.differences import comparison, difference, images, large
from snapshots.differences.buckets import Differing
from snapshots.differences.comparison import Small
from snapshots.differences.shared_job import Pair
from snapshots.differences.window import COMPLETE, Member
from snapshots.keys import FEW, Keys, Sides

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


def differing(reader: Reader, members: Sequence[Member]) -> Iterator[Found]:
    """Compare snapshots with their defining queries, in any order.

    Rows are read when asked for; those of small snapshots are compared together.

    Parameters:
        reader: of these snapshots.
    """
    read: list[_Read] = []
    for member in members:
        sums = reader.differing(member)
        some = comparison.most_rows(reader.sides.master, member.snapshot.master)
        if isinstance(reader, Gently):
            rows = _in_rounds(reader, member, sums, some)
        elif not sums.numbers:
            rows = iter(())
        elif sums.rows > some or _is_too_wide(reader.sides, member, sums):
            rows = _large(reader.sides, member, sums)
        else:
            read.append(_small(reader, member, sums))
            if sum(one.pair.share for one in read) >= 1:
                yield from _together(reader, read)
                read = []
            continue
        yield Found(member=member, sums=sums, rows=_whole(reader, member, rows))
    yield from _together(reader, read)


def _is_too_wide(sides: Sides, member: Member, sums: Differing) -> bool:
    none = keys.none(member.snapshot.key_names)
    some = Small(
        member=replace(member, method=COMPLETE),
        changed=none,
        mine=none,
        differing=sums,
    )
    return comparison.is_too_wide(sides, some)


def _in_rounds(
    reader: Reader, member: Member, sums: Differing, some: int
) -> Iterator[pa.Table]:
    """Compare the rows of some buckets after the others, about so many at a time."""
    rounds = -(-sums.rows // max(some, 1))
    size = max(len(sums.numbers) // max(rounds, 1), 1)
    parts = range(0, len(sums.numbers), size)
    reader.expect(member, len(parts))
    for first in parts:
        some_of_them = replace(sums, numbers=sums.numbers[first : first + size])
        theirs, present = reader.rows(member, some_of_them)
        yield from difference.rows([_pair(member, theirs, present)])


def _together(reader: Reader, read: Sequence[_Read]) -> Iterator[Found]:
    found = difference.rows([one.pair for one in read])
    for one, table in zip(read, found, strict=True):
        rows = _whole(reader, one.member, iter([table]))
        yield Found(member=one.member, sums=one.sums, rows=rows)


def _small(reader: Reader, member: Member, sums: Differing) -> _Read:
    reader.expect(member)
    theirs, present = reader.rows(member, sums, many=sums.rows > FEW)
    return _Read(member=member, sums=sums, pair=_pair(member, theirs, present))


def _large(sides: Sides, member: Member, sums: Differing) -> Iterator[pa.Table]:
    some = None if sums.most else sums
    there, here = comparison.of_all(sides, member, some)
    yield from difference.many_rows(
        large.source(sides.master, there),
        large.source(sides.site, here),
        images.schema(member),
        images.key_positions(member),
        SLICE,
    )


def of_keys(reader: Reader, member: Member, wanted: Keys) -> Iterator[pa.Table]:
    """Look at the rows with these keys alone; they are read when asked for.

    Parameters:
        wanted: keys as the databases print them; one may be there in two spellings.

    Returns:
        Tables as of `Found`.
    """
    shape = images.schema(member)

    def read(some: Keys) -> tuple[pa.Table, pa.Table]:
        return reader.sides.read(
            images.of_keys(member, some, once=True),
            images.present_of_keys(member, some, once=True),
            shape,
            many=some.num_rows > FEW,
        )

    for theirs, present in reader.of_keys(wanted, read):
        yield from difference.rows([_pair(member, theirs, present)])


def _whole(
    reader: Reader, member: Member, found: Iterator[pa.Table]
) -> Iterator[pa.Table]:
    """Look at the rows whatever the condition of the check says of either side.

    A row that fulfils it at one side alone is there at the other side, too.
    """
    if member.only is None:
        yield from found
        return
    names, everywhere = list(member.snapshot.key_names), replace(member, only=None)
    for table in found:
        wanted = keys.distinct(table.select(names))
        yield from of_keys(reader, everywhere, wanted)


def _pair(member: Member, theirs: pa.Table, present: pa.Table) -> Pair:
    return Pair(
        master=theirs,
        present=present,
        key=images.key_positions(member),
        columns=images.positions(member),
    )
