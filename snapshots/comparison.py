"""From a window to the differences of each snapshot, through Spark.

Small windows are read by this process and compared as Arrow tables; large ones
are read by the executors and staged at the site (`snapshots.large`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy import Connection, func, select

from sites import ddl, ranges, transport
from sites.ddl import NewColumn
from snapshots import difference, images, window
from snapshots.snapshot import key_types
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


def is_large(master: Connection, seen: Window, member: Member) -> bool:
    """Whether there is more to compare than this process should hold."""
    if member.method == FAST:
        assert seen.since is not None
        rows = window.changed_keys(member, seen.since)
    else:
        rows = select(sa.literal(1)).select_from(member.master.sql())
    some = rows.limit(SMALL_WINDOW + 1).subquery()
    counted = master.scalar(select(func.count()).select_from(some)) or 0
    return counted > SMALL_WINDOW


def compare(
    master: Connection, site: Connection, seen: Window, member: Member, number: int
) -> Compared:
    """Find out what would make a snapshot equal to its defining query.

    Parameters:
        master: in the transaction whose moment the window is.
        site: in a REPEATABLE READ transaction begun after the window was read;
            temporary tables are created in it.
        number: of the member, for the names of these.
    """
    if member.method == FAST:
        return _fast(master, site, seen, member, number)
    return _complete(master, site, member)


def site_keys(site: Connection, member: Member) -> list[Sequence[str]]:
    """The keys of the site's own log, as the database prints them."""
    query = window.site_keys(member.snapshot).subquery()
    rows = site.execute(select(*images.as_text(list(query.c))))
    return [tuple(row) for row in rows]


def _fast(
    master: Connection, site: Connection, seen: Window, member: Member, number: int
) -> Compared:
    assert seen.since is not None
    shape = images.schema(member)
    mine = site_keys(site, member)
    keys = _keys_table(site, member, number)
    changed = window.changed_keys(member, seen.since)
    names = member.snapshot.key_names
    count = transport.copy(master, changed, site, keys, names)
    if mine:
        count += transport.copy_rows(site, keys, names, mine)
    if not count:
        empty = shape.empty_table()
        return _compared(member, empty, empty, 0)
    theirs = [images.fetch(master, images.of_changed(member, seen.since), shape)]
    for first in range(0, len(mine), images.CHUNK):
        chunk = mine[first : first + images.CHUNK]
        theirs.append(images.fetch(master, images.of_keys(member, chunk), shape))
    rows = images.at_site(member, [select(*keys.c)])
    present = images.fetch(site, rows, shape)
    return _compared(member, _distinct(theirs), present, count)


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


def _keys_table(site: Connection, member: Member, number: int) -> sa.TableClause:
    name, keys = f"snaptide_keys_{number}", member.snapshot.key_names
    kinds = key_types(member.base, member.snapshot)
    columns = [NewColumn(name=k, type=t.name) for k, t in zip(keys, kinds, strict=True)]
    ddl.create_temporary(site, name, columns)
    return sa.table(name, *(sa.column(k, t) for k, t in zip(keys, kinds, strict=True)))


def _distinct(tables: list[pa.Table]) -> pa.Table:
    """One table of several; a row read by two ways is in it once."""
    if len(tables) == 1:
        return tables[0]
    together = pa.concat_tables(tables)
    return together.group_by(together.column_names, use_threads=False).aggregate([])
