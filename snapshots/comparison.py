"""From a window to the differences of each snapshot, through Spark.

Small windows are read by this process and compared as Arrow tables; large ones
are read by the executors and staged at the site (`snapshots.large`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy import Connection, func, select

from sites import ranges
from snapshots import difference, images, window
from snapshots.packed import Pair
from snapshots.stage import Stage
from snapshots.window import FAST, Member, Window

#: More rows than this are compared by executors.
SMALL_WINDOW = 50_000

#: Snapshots of a group are compared together until they have so many images.
TOGETHER = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Small:
    """A window that this process can hold: which rows of a snapshot to look at."""

    member: Member
    #: the keys that changed at the master; nothing for a complete refresh
    changed: images.Keys
    #: the keys of the site's own log
    mine: images.Keys = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The difference of one snapshot, ready to be merged."""

    member: Member
    #: held by this process, or else staged at the site
    difference: pa.Table | Stage
    #: how many keys were looked at; None for all
    window_keys: int | None

    @property
    def differs(self) -> bool:
        """Whether there is anything to merge."""
        if isinstance(self.difference, Stage):
            return self.difference.rows > 0
        return bool(self.difference.num_rows)


def small_window(
    master: Connection, seen: Window, member: Member
) -> images.Keys | None:
    """The keys of a window that this process can hold; None if there are too many."""
    if member.method == FAST:
        assert seen.since is not None
        changed = window.changed_keys(member, seen.since).limit(SMALL_WINDOW + 1)
        rows = changed.subquery()
        keys = master.execute(select(*images.as_text(list(rows.c)))).all()
        return None if len(keys) > SMALL_WINDOW else [tuple(key) for key in keys]
    some = select(sa.literal(1)).select_from(member.master.sql())
    counted = select(func.count()).select_from(some.limit(SMALL_WINDOW + 1).subquery())
    return None if (master.scalar(counted) or 0) > SMALL_WINDOW else []


def site_keys(site: Connection, member: Member) -> images.Keys:
    """The keys of the site's own log, as the database prints them."""
    if member.method != FAST:
        return []
    query = window.site_keys(member.snapshot).subquery()
    rows = site.execute(select(*images.as_text(list(query.c))))
    return [tuple(row) for row in rows]


def compare(
    master: Connection, site: Connection, windows: Sequence[Small]
) -> Iterator[Compared]:
    """Find out what would make snapshots equal to their defining queries, in order.

    Parameters:
        master: in the transaction whose moment the window is.
        site: in a REPEATABLE READ transaction begun after the window was read.
    """
    read: list[_Read] = []
    for one in windows:
        read.append(_read(master, site, one))
        if sum(r.pair.rows for r in read) >= TOGETHER:
            yield from _compared(read)
            read.clear()
    yield from _compared(read)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    member: Member
    pair: Pair
    window_keys: int | None


def _read(master: Connection, site: Connection, one: Small) -> _Read:
    if one.member.method == FAST:
        return _of_keys(master, site, one)
    return _of_all(master, site, one.member)


def _of_keys(master: Connection, site: Connection, one: Small) -> _Read:
    keys = [*dict.fromkeys([*one.changed, *one.mine])]
    shape = images.schema(one.member)
    theirs, present = [shape.empty_table()], [shape.empty_table()]
    for first in range(0, len(keys), images.CHUNK):
        chunk = keys[first : first + images.CHUNK]
        theirs.append(images.fetch(master, images.of_keys(one.member, chunk), shape))
        mine = images.present_of_keys(one.member, chunk)
        present.append(images.fetch(site, mine, shape))
    # Keys that print differently may be one row's: it is in several chunks then.
    several = len(theirs) > 2
    return _images(one.member, theirs, present, len(keys), distinct=several)


def _of_all(master: Connection, site: Connection, member: Member) -> _Read:
    shape = images.schema(member)
    theirs = [
        images.fetch(master, images.at_master(member, part), shape)
        for part in ranges.ctid_ranges(master, member.snapshot.master)
    ]
    present = [
        images.fetch(site, images.present(member, part), shape)
        for part in ranges.ctid_ranges(site, member.snapshot.base)
    ]
    return _images(member, theirs, present, None, distinct=False)


def _images(
    member: Member,
    theirs: list[pa.Table],
    present: list[pa.Table],
    keys: int | None,
    *,
    distinct: bool,
) -> _Read:
    tables = [pa.concat_tables(tables) for tables in (theirs, present)]
    if distinct:
        tables = [_distinct(table) for table in tables]
    pair = Pair(
        master=tables[0],
        present=tables[1],
        key=images.key_positions(member),
        columns=images.positions(member),
    )
    return _Read(member=member, pair=pair, window_keys=keys)


def _compared(read: Sequence[_Read]) -> Iterator[Compared]:
    found = difference.small([one.pair for one in read])
    for one, changes in zip(read, found, strict=True):
        yield Compared(
            member=one.member, difference=changes, window_keys=one.window_keys
        )


def _distinct(table: pa.Table) -> pa.Table:
    """A row that was read by two ways is in it once."""
    return table.group_by(table.column_names, use_threads=False).aggregate([])
