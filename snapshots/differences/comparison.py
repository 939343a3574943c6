"""Turns a window into the differences of each snapshot, through Spark.

Small windows are read by this process and compared as Arrow tables; large ones
are read by the executors and staged at the site (`snapshots.differences.large`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Select, func, select

from sites import QualifiedName
from sites.conditions import ranges
from sites.extras import pa
from sites.sessions.exchange import Later
from sites.transfer.transport import ask
from snapshots import keys
from snapshots.differences import buckets, difference, images
from snapshots.differences.buckets import Differing
from snapshots.differences.shared_job import MOST_BYTES, Pair
from snapshots.differences.stage import Stage
from snapshots.differences.window import COMPLETE, FAST, Member
from snapshots.keys import ALWAYS_FEW, FEW, Keys, Side, Sides
from snapshots.reports import Cause, WayTaken

#: The way of a complete refresh by which both sides sum up the rows first.
SUMS = "sums"

#: More rows than this are compared by executors, as are rows of more than `MOST_BYTES`.
SMALL_WINDOW = 250_000

#: A value takes no less than this share of its bytes, however it is compressed.
_COMPRESSED = 1 / 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Small:
    """A window that this process can hold: which rows of a snapshot to look at."""

    member: Member
    #: the keys that changed at the master; nothing for a complete refresh
    changed: Keys
    #: the keys of the site's own log
    mine: Keys
    #: for a complete refresh, the buckets in which rows differ; None for all
    differing: Differing | None = None
    #: the bytes of its images at both sides, as `size` finds them
    size: int = 0

    @property
    def is_fast(self) -> bool:
        """Whether its rows are found by keys."""
        return self.member.method == FAST

    @property
    def keys(self) -> Keys:
        """All keys to look at."""
        return keys.together(self.changed, self.mine)

    @property
    def most_keys(self) -> int:
        """How many keys it has at most: those of both sides may be the same."""
        return int(self.changed.num_rows + self.mine.num_rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The difference of one snapshot, ready to be merged."""

    member: Member
    #: held by this process, or else staged at the site
    difference: pa.Table | Stage
    #: how many keys were looked at; None for all
    window_keys: int | None
    #: keys of the deletes whose rows the master still has
    #: (`snapshots.differences.leaving`), each with the row of another table that it
    #: leaves with, or ""; and a summary of these
    leaving: pa.Table | None = None
    because: tuple[Cause, ...] = ()
    #: whether both sides have summed up all rows
    by_sums: bool = False
    #: how long it took to read and compare the rows; the shares of those that are
    #: compared together are equal
    seconds: float = 0.0
    #: the way that was taken, for the note of the refresh
    way: WayTaken | None = None

    @property
    def differs(self) -> bool:
        """Whether there is anything to merge."""
        if isinstance(self.difference, Stage):
            return self.difference.rows > 0
        return bool(self.difference.num_rows)

    @property
    def may_leave(self) -> bool:
        """Whether the master may still have rows that the difference deletes.

        A condition of the snapshot or a grant of the master chooses among its rows.
        """
        chosen = self.member.snapshot.condition is not None
        return self.differs and (chosen or self.member.master.divided)


def way_taken(sides: Sides, found: Compared, before: float) -> WayTaken:
    """The way by which a snapshot was compared, and what that has cost.

    Parameters:
        before: seconds that it took to find out what is to be compared.
    """
    member = found.member
    is_fast = member.method == FAST
    return WayTaken(
        way=FAST if is_fast else SUMS if found.by_sums else COMPLETE,
        size=found.window_keys
        if is_fast
        else ranges.rows_about(sides.master.at, member.snapshot.master),
        seconds=round(before + found.seconds, 6),
        estimates={
            way: round(cost, 6)
            for way, cost in member.estimates.items()
            if cost is not None
        },
    )


def small_windows(sides: Sides, members: Sequence[Member]) -> list[Keys | None]:
    """The keys of windows that this process can hold; None if one has too many.

    Whether their rows are too wide, `size` tells. The logs of all are read in
    one round trip.
    """
    changed = {
        number: images.first_changed(one)
        for number, one in enumerate(members)
        if one.method == FAST and one.may_differ and one.since is not None
    }
    asked = dict(zip(changed, ask(sides.master.at, *changed.values()), strict=True))
    return [
        _of_log(sides, one, asked.get(number))
        if one.method == FAST
        else _of_rows(sides, one)
        for number, one in enumerate(members)
    ]


def _of_log(sides: Sides, member: Member, asked: Later | None) -> Keys | None:
    """The keys that changed, those at the master as they were `asked` for."""
    master, names = sides.master, member.snapshot.key_names
    most = partial(most_rows, master, member.snapshot.master)
    found: Keys | None = keys.none(names)
    if asked is not None:
        every = partial(images.changed, member)
        found = keys.read_all(master, asked, every, names, most)
    if found is not None:
        left = images.left(sides.site, member, most)
        found = None if left is None else keys.together(found, left)
    return None if found is None or found.num_rows > SMALL_WINDOW else found


def _of_rows(sides: Sides, member: Member) -> Keys | None:
    """No keys, unless the snapshot has too many rows."""
    most = most_rows(sides.master, member.snapshot.master)
    some = select(sa.literal(1)).select_from(member.master.sql())
    counted = select(func.count()).select_from(some.limit(most + 1).subquery())
    many = (sides.master.at.scalar(counted) or 0) > most
    return None if many else keys.none(member.snapshot.key_names)


def is_too_wide(sides: Sides, one: Small) -> bool:
    """Whether the images of a window have more bytes than this process should hold."""
    return size(sides, one) > MOST_BYTES


def size(sides: Sides, one: Small, apart: int | None = None) -> int:
    """The bytes of the images of a window; 0 if its rows cannot be too wide.

    A limit of rows bounds the bytes as long as rows fit into pages. Longer values are
    stored apart (TOAST): only where a table has such values, the databases are asked.

    Parameters:
        apart: the bytes of values that the base table stores apart; None if they have
            to be asked for.
    """
    if apart is None:
        leaves = ranges.leaves(sides.site.at, one.member.snapshot.base)
        apart = sum(leaf.apart for leaf in leaves.values())
    theirs = sum(leaf.apart for leaf in one.member.parts.values())
    if theirs + apart <= MOST_BYTES * _COMPRESSED:
        return 0
    shape, (there, here) = images.schema(one.member), _queries(sides, one)
    with ThreadPoolExecutor(max_workers=1) as beside:
        at_master = beside.submit(_size, sides.master, shape, there)
        present = _size(sides.site, shape, here)
        return at_master.result() + present


def _size(side: Side, shape: pa.Schema, queries: Sequence[Select[Any]]) -> int:
    """The bytes of all texts and binary values that queries of images find.

    PostgreSQL knows the length of a text or `bytea` without reading it.
    """
    if not queries:
        return 0
    rows = sa.union_all(*queries).subquery("rows")
    lengths = [
        func.coalesce(func.octet_length(rows.c[field.name]), 0)
        for field in shape
        if pa.types.is_string(field.type) or pa.types.is_binary(field.type)
    ]
    # The lengths of one row may be more than an integer holds.
    total = sum((func.sum(one) for one in lengths), start=sa.literal(0))
    return int(side.at.scalar(select(total).select_from(rows)) or 0)


def _queries(sides: Sides, one: Small) -> tuple[list[Select[Any]], list[Select[Any]]]:
    """The queries that read the images of a window at both sides, in parts."""
    if not one.is_fast:
        return of_all(sides, one.member, one.differing)
    parts = list(keys.chunks(one.keys))
    return (
        [images.of_keys(one.member, some) for some in parts],
        [images.present_of_keys(one.member, some) for some in parts],
    )


def compare(sides: Sides, windows: Sequence[Small]) -> Iterator[Compared]:
    """Find the differences of snapshots from their defining queries, in order."""
    read: list[_Read] = []
    share = 0.0
    for some in _together(windows):
        for one in _read(sides, some):
            read.append(one)
            share += one.pair.share
        if share >= 1:
            yield from _compared(read)
            read.clear()
            share = 0.0
    yield from _compared(read)


def _together(windows: Sequence[Small]) -> Iterator[list[Small]]:
    """Windows in order, those together that have few keys in all, and few bytes."""
    some: list[Small] = []
    count = size = 0
    for one in windows:
        count, size = count + one.most_keys, size + one.size
        much = count > ALWAYS_FEW or size > MOST_BYTES
        if some and (much or not (one.is_fast and some[0].is_fast)):
            yield some
            some, count, size = [], one.most_keys, one.size
        some.append(one)
    if some:
        yield some


def equal(member: Member) -> Compared:
    """The empty difference of a snapshot that equals its defining query."""
    none = [images.schema(member).empty_table()]
    return next(_compared([_images(member, none, none, None, distinct=False)]))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    member: Member
    pair: Pair
    window_keys: int | None
    seconds: float = 0.0


def _read(sides: Sides, some: Sequence[Small]) -> list[_Read]:
    """Read both sides of windows that `_together` has put together."""
    began = time.monotonic()
    fast = some[0].is_fast
    found = _of_keys(sides, some) if fast else [_of_all(sides, some[0])]
    share = (time.monotonic() - began) / len(some)
    return [replace(one, seconds=share) for one in found]


def _of_keys(sides: Sides, some: Sequence[Small]) -> list[_Read]:
    if some[0].most_keys > FEW:  # then it is the only one
        shape, queries = images.schema(some[0].member), _queries(sides, some[0])
        parts = zip(*queries, strict=True)
        pairs = [sides.read(*part, shape, many=True) for part in parts]
        return [_of_window(some[0], pairs)]
    asked = [
        (*images.of_few_keys(one.member, one.keys), images.schema(one.member))
        for one in some
        if one.most_keys
    ]
    found = iter(sides.read_apart(asked))
    return [_of_window(one, [next(found)] if one.most_keys else []) for one in some]


def _of_window(one: Small, pairs: Sequence[tuple[pa.Table, pa.Table]]) -> _Read:
    member, none = one.member, images.schema(one.member).empty_table()
    # A row whose key is there in two spellings (1.0 and 1.00) is read twice: the sites
    # may spell it differently, or those of its parents that have changed.
    exact = all(member.base.column(c).exact for c in member.snapshot.identity_columns)
    twice = not exact or bool(one.changed.num_rows and one.mine.num_rows)
    return _images(
        member,
        [none, *(theirs for theirs, _ in pairs)],
        [none, *(present for _, present in pairs)],
        one.keys.num_rows,
        distinct=one.most_keys > FEW and twice,
    )


def _of_all(sides: Sides, one: Small) -> _Read:
    member, shape = one.member, images.schema(one.member)
    there, here = _queries(sides, one)
    # Each side takes long to find the buckets of its rows: so both do it at once.
    with ThreadPoolExecutor(max_workers=1) as beside:
        theirs = beside.submit(_parts, sides.master, there, shape)
        present = _parts(sides.site, here, shape)
        return _images(member, theirs.result(), present, None, distinct=False)


def _parts(
    side: Side, queries: Sequence[Select[Any]], shape: pa.Schema
) -> list[pa.Table]:
    found = (side.read(query, shape, many=True) for query in queries)
    return [shape.empty_table(), *found]


def of_all(
    sides: Sides, member: Member, differing: Differing | None
) -> tuple[list[Select[Any]], list[Select[Any]]]:
    """The queries that read all rows of both sides, or of some buckets, in parts."""
    theirs = ranges.ctid_ranges(sides.master.at, member.snapshot.master)
    present = ranges.ctid_ranges(sides.site.at, member.snapshot.base)
    queries = (
        [images.at_master(member, part) for part in theirs],
        [images.present(member, part) for part in present],
    )
    if differing is None:
        return queries
    layout = images.layout(member)
    there, here = (
        [buckets.within(query, layout, differing) for query in side] for side in queries
    )
    return there, here


def most_rows(side: Side, table: QualifiedName) -> int:
    """How many rows of a table this process can hold."""
    fits = ranges.rows_within(side.at, table, MOST_BYTES)
    return int(min(SMALL_WINDOW, max(fits, ALWAYS_FEW)))


def _images(
    member: Member,
    theirs: list[pa.Table],
    present: list[pa.Table],
    count: int | None,
    *,
    distinct: bool,
) -> _Read:
    tables = [pa.concat_tables(tables) for tables in (theirs, present)]
    if distinct:
        tables = [keys.distinct(table) for table in tables]
    pair = Pair(
        master=tables[0],
        present=tables[1],
        key=images.key_positions(member),
        columns=images.positions(member),
    )
    return _Read(member=member, pair=pair, window_keys=count)


def _compared(read: Sequence[_Read]) -> Iterator[Compared]:
    began = time.monotonic()
    found = difference.small([one.pair for one in read])
    share = (time.monotonic() - began) / max(len(read), 1)
    for one, changes in zip(read, found, strict=True):
        yield Compared(
            member=one.member,
            difference=changes,
            window_keys=one.window_keys,
            seconds=one.seconds + share,
        )
