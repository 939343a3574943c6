"""Finds where two large tables differ, by checksums that each database computes.

A hash of the key puts each row into a bucket. Each side computes two sums of 64 bits
over the images of a bucket; if they are equal, so are the rows, and neither side sends
them. If two machines compute a hash differently, equal rows are compared, no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Select, cast, func, literal, select
from sqlalchemy.dialects.postgresql import ARRAY

from sites.conditions import ranges
from sites.conditions.ranges import Range
from sites.extras import pa, pc
from sites.names import QualifiedName
from sites.sessions import settings
from sites.transfer import arrow
from snapshots import keys
from snapshots.differences import images
from snapshots.differences.images import Layout
from snapshots.differences.window import Member
from snapshots.keys import Sides

#: A server that gives a query the usual 4 MB makes this many sums in memory.
BUCKETS = 2**15

#: One that gives it `settings.ENOUGH` makes this many.
MOST_BUCKETS = 2**17

#: No more rows are in a bucket, if it can be: all of them are read if one differs.
ROWS_OF_A_BUCKET = 8

#: How many of the master's rows are looked up at the site before all are summed up.
SAMPLE = 1000

#: An offset of 0, as PostgreSQL takes it before it evaluates constants: a query with
#: any other is kept from parallel workers.
_NOTHING: sa.ColumnElement[Any] = sa.literal_column("'0'")

#: What `sums` finds for each bucket: its number, how many rows it has, and two sums.
SUMS = ("integer", "bigint", "bigint", "bigint")


@dataclass(frozen=True, slots=True, kw_only=True)
class Differing:
    """The buckets whose rows are not the same at all sides."""

    numbers: tuple[int, ...]
    #: how many buckets there are
    of: int
    #: how many rows of all sides fall into these buckets
    rows: int
    #: how many rows each side has in all, the master before the site
    counts: tuple[int, ...]

    @property
    def most(self) -> bool:
        """Whether so many differ that it is quicker to read all rows."""
        return len(self.numbers) * 2 >= self.of


def compared(sides: Sequence[pa.Table], of: int) -> Differing:
    """Find the buckets whose sums are not the same at all sides.

    Parameters:
        sides: what a query for sums has found at each.
        of: how many buckets there are.
    """
    every = pa.concat_tables(sides)
    seen = every.group_by(every.column_names, use_threads=False)
    times = seen.aggregate([([], "count_all")])
    odd = times.filter(pc.less(times["count_all"], len(sides)))
    return Differing(
        numbers=tuple(sorted(pc.unique(odd["c1"]).to_pylist())),
        of=of,
        rows=_sum(pc.multiply(odd["c2"], odd["count_all"])),
        counts=tuple(_sum(side["c2"]) for side in sides),
    )


def _sum(numbers: pa.ChunkedArray) -> int:
    return int(pc.sum(numbers, min_count=0).as_py())


def enough(rows: int | None) -> int:
    """How many buckets the rows of a table are divided into.

    Parameters:
        rows: about how many there are; None if that is not known.
    """
    wanted = (rows or 0) // ROWS_OF_A_BUCKET
    return max(BUCKETS, min(MOST_BUCKETS, 1 << wanted.bit_length()))


def differing(sides: Sides, member: Member) -> Differing:
    """Find the buckets in which a snapshot and its defining query differ.

    Until the transactions of both sides end, their statements have more memory.
    """
    of = enough(ranges.rows_about(sides.master.at, member.snapshot.master))
    for side in (sides.master, sides.site):
        side.at.execute(select(settings.raise_work_mem()))
    there = [
        images.at_master(member, part)
        for part in _whole(sides.master.at, member.snapshot.master)
    ]
    here = [
        images.present(member, part)
        for part in _whole(sides.site.at, member.snapshot.base)
    ]
    layout = images.layout(member)
    at_master, present = (sums(layout, queries, of) for queries in (there, here))
    found = sides.read(at_master, present, arrow.schema(SUMS), many=False)
    return compared(found, of)


def within(query: Select[Any], layout: Layout, found: Differing) -> Select[Any]:
    """Images of a query that fall into the buckets that differ."""
    rows = query.subquery("rows")
    wanted = literal("{" + ",".join(map(str, found.numbers)) + "}")
    return select(*rows.c).where(
        _bucket(layout, rows, found.of) == sa.any_(cast(wanted, ARRAY(sa.Integer)))
    )


def mostly_differ(sides: Sides, member: Member) -> bool:
    """Whether more than half of a sample of the master's rows differ at the site.

    If so, summing up all rows is no use.
    """
    part = _whole(sides.master.at, member.snapshot.master)[0]
    some = images.at_master(member, part).limit(SAMPLE).subquery()
    names = member.snapshot.key_names
    places = zip(images.key_positions(member), names, strict=True)
    wanted = keys.read(
        sides.master, select(*(some.c[c].label(k) for c, k in places)), names
    )
    assert wanted is not None
    layout = images.layout(member)
    there, here = (
        _hashes(layout, query(member, wanted))
        for query in (images.of_keys, images.present_of_keys)
    )
    found = sides.read(there, here, arrow.schema(["bigint"] * 2), many=False)
    theirs, present = (
        set(zip(*table.to_pydict().values(), strict=True)) for table in found
    )
    return len(theirs - present) * 2 > len(theirs)


def _hashes(layout: Layout, query: Select[Any]) -> Select[Any]:
    """Two hashes of each image that a query reads: the rows may be wide."""
    rows = query.subquery("rows")
    every: list[Any] = [
        _hash(layout, layout.columns, rows, n).label(f"c{n}") for n in (1, 2)
    ]
    return select(*every)


def _whole(connection: sa.Connection, table: QualifiedName) -> list[Range]:
    return ranges.ctid_ranges(connection, table, parts=1)


def sums(layout: Layout, queries: Sequence[Select[Any]], of: int) -> Select[Any]:
    """The sums of each of so many buckets of the images that queries read.

    The offset has PostgreSQL make the record of a row once, not once for each sum. It
    then also expects few buckets, which fit into memory, and not as many as keys.
    """
    rows = sa.union_all(*queries).subquery("rows")
    key = _record(layout, layout.key, rows).label("key")
    image = _record(layout, layout.columns, rows).label("image")
    each = select(key, image).offset(_NOTHING).subquery("each")
    number = _bucket_of(each.c.key, of)
    every: tuple[sa.ColumnElement[Any], ...] = (
        number,
        func.count(),
        *(func.bit_xor(_hash_of(each.c.image, seed)) for seed in (1, 2)),
    )
    named = (value.label(f"c{n}") for n, value in enumerate(every, 1))
    return select(*named).group_by(number)


def _bucket(layout: Layout, rows: sa.FromClause, of: int) -> sa.ColumnElement[int]:
    return _bucket_of(_record(layout, layout.key, rows), of)


def _bucket_of(key: sa.ColumnElement[Any], of: int) -> sa.ColumnElement[int]:
    return cast(_hash_of(key, 0).op("&")(of - 1), sa.Integer)


def _hash(
    layout: Layout, names: Sequence[str], rows: sa.FromClause, seed: int
) -> sa.ColumnElement[int]:
    return _hash_of(_record(layout, names, rows), seed)


def _hash_of(record: sa.ColumnElement[Any], seed: int) -> sa.ColumnElement[int]:
    """A hash of a record, the same at both sides only if they share an encoding.

    The hash of a record is a sum over its columns: if two rows swapped a value, the sum
    of both rows would stay the same. So the record's hash is hashed once more.
    """
    encoding = select(func.hashtextextended(func.getdatabaseencoding(), seed))
    once = encoding.scalar_subquery()  # asked once for all rows
    hashed = func.hash_record_extended(record, once)
    return func.hashint8extended(hashed, once, type_=sa.BigInteger)


def _record(
    layout: Layout, names: Sequence[str], rows: sa.FromClause
) -> sa.ColumnElement[Any]:
    kinds = {name: layout.schema.field(name).type for name in names}
    values = (
        # Otherwise a collation may treat two texts as equal, such as 'a' and 'A'.
        rows.c[n].collate("C") if pa.types.is_string(kinds[n]) else rows.c[n]
        for n in names
    )
    return func.row(*values)
