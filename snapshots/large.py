"""Comparing more rows than one process should hold: executors read and stage them.

All of them see the moment that the transactions here have exported.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Select, select

from sites import ranges, transport
from sites.site import Site
from sites.transport import literal_text
from snapshots import difference, images, keys, stage, window
from snapshots.comparison import Compared
from snapshots.keys import Keys
from snapshots.side import Side, Sides
from snapshots.stage import Stage
from snapshots.window import FAST, Member, Window

#: Keys for one task.
PART = 100_000

#: Each part of a window reads the whole window's log.
MOST_PARTS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What has to stand at the site before its own moment begins."""

    member: Member
    #: the changed keys of the master, where executors can see them; None for all
    keys: sa.TableClause | None
    count: int


def prepare(site: Site, master: Connection, seen: Window, member: Member) -> Prepared:
    """Bring the window's keys to the site; commits there."""
    if member.method != FAST:
        return Prepared(member=member, keys=None, count=0)
    assert seen.since is not None
    changed = window.changed_keys(member, seen.since)
    with site.begin() as connection:
        keys = stage.create_keys(connection, member)
        names = member.snapshot.key_names
        count = transport.copy(master, changed, connection, keys, names)
        transport.analyze(connection, keys)
    return Prepared(member=member, keys=keys, count=count)


def compare(sides: Sides, seen: Window, ready: Prepared, mine: Keys) -> Compared:
    """Have executors compare a snapshot with its defining query, and stage the result.

    Parameters:
        mine: the keys of the site's own log.

    Raises:
        StageFailed: a task failed; nothing was merged.
    """
    member = ready.member
    if ready.keys is not None:
        queries = _window_queries(seen, ready, mine)
    else:
        queries = _complete_queries(sides, member)
    with sides.site.site.begin() as connection:
        table = stage.create(connection, member)
    load_id = uuid.uuid4()
    attempts = difference.staged(
        _source(sides.master, queries[0]),
        _source(sides.site, queries[1]),
        images.schema(member),
        images.key_positions(member),
        difference.Target(table.schema, table.name, load_id),
        twice=ready.keys is not None and bool(mine.num_rows),
    )
    found = Stage(
        table=table,
        load_id=load_id,
        attempts=tuple(attempts),
        rows=sum(attempts.values()),
    )
    keys = None if ready.keys is None else ready.count + mine.num_rows
    return Compared(member=member, difference=found, window_keys=keys)


_Queries = tuple[list[Select[Any]], list[Select[Any]]]


def _window_queries(seen: Window, ready: Prepared, mine: Keys) -> _Queries:
    member = ready.member
    assert seen.since is not None
    assert ready.keys is not None
    parts = min(ready.count // PART + 1, MOST_PARTS)
    theirs = [
        images.of_changed(member, seen.since, part=(n, parts)) for n in range(parts)
    ]
    theirs += [images.of_keys(member, some) for some in keys.chunks(mine)]
    here = [select(*ready.keys.c), window.site_keys(member.snapshot)]
    present = [images.at_site(member, here, part=(n, parts)) for n in range(parts)]
    return theirs, present


def _complete_queries(sides: Sides, member: Member) -> _Queries:
    theirs = ranges.ctid_ranges(sides.master.at, member.snapshot.master)
    present = ranges.ctid_ranges(sides.site.at, member.snapshot.base)
    return (
        [images.at_master(member, part) for part in theirs],
        [images.present(member, part) for part in present],
    )


def _source(side: Side, queries: Sequence[Select[Any]]) -> difference.Side:
    texts = [literal_text(query) for query in queries]
    return difference.Side(side.site.libpq_uri(), texts, side.moment())
