"""From a window to the differences of each snapshot, through Spark.

Small windows are read by this process and compared as Arrow tables; large ones
are read by the executors and staged at the site (`snapshots.large`).
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy import Connection, func, select

from sites import ranges
from snapshots import difference, images, window
from snapshots.stage import Stage
from snapshots.window import FAST, Member, Window

#: More rows than this are compared by executors.
SMALL_WINDOW = 50_000


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


def compare(
    master: Connection, site: Connection, member: Member, changed: images.Keys
) -> Compared:
    """Find out what would make a snapshot equal to its defining query.

    Parameters:
        master: in the transaction whose moment the window is.
        site: in a REPEATABLE READ transaction begun after the window was read.
        changed: what `small_window` has read.
    """
    if member.method == FAST:
        return _fast(master, site, member, changed)
    return _complete(master, site, member)


def site_keys(site: Connection, member: Member) -> images.Keys:
    """The keys of the site's own log, as the database prints them."""
    query = window.site_keys(member.snapshot).subquery()
    rows = site.execute(select(*images.as_text(list(query.c))))
    return [tuple(row) for row in rows]


def _fast(
    master: Connection, site: Connection, member: Member, changed: images.Keys
) -> Compared:
    keys = [*dict.fromkeys([*changed, *site_keys(site, member)])]
    shape = images.schema(member)
    if not keys:
        return _compared(member, shape.empty_table(), shape.empty_table(), 0)
    theirs, present = [], []
    for first in range(0, len(keys), images.CHUNK):
        chunk = keys[first : first + images.CHUNK]
        theirs.append(images.fetch(master, images.of_keys(member, chunk), shape))
        mine = images.present_of_keys(member, chunk)
        present.append(images.fetch(site, mine, shape))
    return _compared(member, _distinct(theirs), _distinct(present), len(keys))


def _complete(master: Connection, site: Connection, member: Member) -> Compared:
    shape = images.schema(member)
    theirs = [
        images.fetch(master, images.at_master(member, part), shape)
        for part in ranges.ctid_ranges(master, member.snapshot.master)
    ]
    present = [
        images.fetch(site, images.present(member, part), shape)
        for part in ranges.ctid_ranges(site, member.snapshot.base)
    ]
    return _compared(member, pa.concat_tables(theirs), pa.concat_tables(present), None)


def _compared(
    member: Member, theirs: pa.Table, present: pa.Table, keys: int | None
) -> Compared:
    found = difference.small(
        theirs, present, images.key_positions(member), images.positions(member)
    )
    return Compared(member=member, difference=found, window_keys=keys)


def _distinct(tables: list[pa.Table]) -> pa.Table:
    """One table of several; a row read by two ways is in it once."""
    if len(tables) == 1:
        return tables[0]
    together = pa.concat_tables(tables)
    return together.group_by(together.column_names, use_threads=False).aggregate([])
