"""Where two large tables differ, found by sums that each database makes of its rows.

Rows fall into buckets by a hash of their key. Of the images in a bucket either side
makes two sums of 64 bits; where they are equal so are the rows, and neither travels.
A hash that two machines make differently has rows compared that are equal, no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy import Select, cast, func, literal, select
from sqlalchemy.dialects.postgresql import ARRAY

from sites import ranges
from sites.names import QualifiedName
from sites.ranges import Range
from snapshots import images, keys
from snapshots.side import Sides
from snapshots.window import Member

#: So many sums are made in memory by a server that gives a query the usual 4 MB.
BUCKETS = 2**15

#: Rows of the master that are looked up at the site before all rows are summed up.
SAMPLE = 1000

_SUMS = pa.schema(
    [
        ("c1", pa.int32()),
        ("c2", pa.int64()),
        ("c3", pa.int64()),
        ("c4", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Differing:
    """The buckets whose rows are not the same at both sides."""

    numbers: tuple[int, ...]
    #: that fall into them, of both sides
    rows: int


def differing(sides: Sides, member: Member) -> Differing:
    """Find the buckets in which a snapshot and its defining query differ."""
    there = [
        images.at_master(member, part)
        for part in _whole(sides.master.at, member.snapshot.master)
    ]
    here = [
        images.present(member, part)
        for part in _whole(sides.site.at, member.snapshot.base)
    ]
    found = sides.read(_sums(member, there), _sums(member, here), _SUMS, many=True)
    theirs, ours = (
        set(zip(*table.to_pydict().values(), strict=True)) for table in found
    )
    odd = theirs ^ ours
    return Differing(
        numbers=tuple(sorted({number for number, *_ in odd})),
        rows=sum(rows for _, rows, *_ in odd),
    )


def within(query: Select[Any], member: Member, numbers: Sequence[int]) -> Select[Any]:
    """Images of a query that fall into these buckets."""
    rows = query.subquery("rows")
    wanted = literal("{" + ",".join(map(str, numbers)) + "}")
    return select(*rows.c).where(
        _bucket(member, rows) == sa.any_(cast(wanted, ARRAY(sa.Integer)))
    )


def mostly_differ(sides: Sides, member: Member) -> bool:
    """Whether more than half of some of the master's rows are not so at the site.

    Then it is no use to sum up all.
    """
    part = _whole(sides.master.at, member.snapshot.master)[0]
    some = images.at_master(member, part).limit(SAMPLE).subquery()
    names = member.snapshot.key_names
    places = zip(images.key_positions(member), names, strict=True)
    wanted = keys.read(
        sides.master, select(*(some.c[c].label(k) for c, k in places)), names
    )
    assert wanted is not None
    shape = images.schema(member)
    theirs, present = sides.read(
        images.of_keys(member, wanted),
        images.present_of_keys(member, wanted),
        shape,
        many=False,
    )
    rows = [
        set(zip(*table.to_pydict().values(), strict=True))
        for table in (theirs, present)
    ]
    return len(rows[0] - rows[1]) * 2 > len(rows[0])


def _whole(connection: sa.Connection, table: QualifiedName) -> list[Range]:
    return ranges.ctid_ranges(connection, table, parts=1)


def _sums(member: Member, queries: Sequence[Select[Any]]) -> Select[Any]:
    rows = sa.union_all(*queries).subquery("rows")
    number = _bucket(member, rows)
    sums = [
        func.bit_xor(_hash(member, images.positions(member), rows, seed))
        for seed in (1, 2)
    ]
    every = (number, func.count(), *sums)
    named = (value.label(f"c{n}") for n, value in enumerate(every, 1))
    return select(*named).group_by(number)


def _bucket(member: Member, rows: sa.FromClause) -> sa.ColumnElement[int]:
    place = _hash(member, images.key_positions(member), rows, 0).op("&")(BUCKETS - 1)
    return cast(place, sa.Integer)


def _hash(
    member: Member, names: Sequence[str], rows: sa.FromClause, seed: int
) -> sa.ColumnElement[int]:
    """A hash of some columns; of databases in one encoding alone are they the same.

    That of a record is a sum of those of its columns: two rows that swap a value would
    leave their sum as it was, were it not hashed once more.
    """
    encoding = select(func.hashtextextended(func.getdatabaseencoding(), seed))
    once = encoding.scalar_subquery()  # asked once for all rows
    shape = images.schema(member)
    values = (
        # Else a collation may hold two texts to be one: 'a' and 'A'.
        rows.c[n].collate("C") if pa.types.is_string(shape.field(n).type) else rows.c[n]
        for n in names
    )
    record = func.hash_record_extended(func.row(*values), once)
    return func.hashint8extended(record, once, type_=sa.BigInteger)
