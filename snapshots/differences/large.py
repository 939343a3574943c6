"""Comparing more rows than one process should hold: executors read and stage them.

All executors see the moment that the transactions of this process have exported.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Select, select

from sites.sessions.site import Site
from sites.tables.analyze import analyze
from sites.transfer import transport
from sites.transfer.transport import literal_text
from snapshots import keys
from snapshots.differences import buckets, comparison, difference, images, stage
from snapshots.differences.buckets import Differing
from snapshots.differences.comparison import Compared, Small
from snapshots.differences.stage import Stage
from snapshots.differences.window import FAST, Member
from snapshots.keys import Keys, Side, Sides

#: How many keys one task compares.
PART = 100_000

#: Each part of a window reads the whole window's log.
MOST_PARTS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """The keys that have to stand at the site before its own moment begins."""

    member: Member
    #: the changed keys of the master, where executors can see them; None for all
    keys: sa.TableClause | None
    count: int


def prepare(site: Site, master: Connection, member: Member) -> Prepared:
    """Bring the window's keys to the site; commits there."""
    if member.method != FAST:
        return Prepared(member=member, keys=None, count=0)
    assert member.since is not None
    changed = images.changed_keys(member, member.since)
    with site.transaction() as connection:
        keys = stage.create_keys(connection, member)
        names = member.snapshot.key_names
        count = transport.copy(master, changed, connection, keys, names)
        analyze(connection, keys)
    return Prepared(member=member, keys=keys, count=count)


def compare(sides: Sides, ready: Prepared, mine: Keys) -> Compared:
    """Have executors compare a snapshot with its defining query, and stage the result.

    Parameters:
        mine: the keys of the site's own log.

    Raises:
        StageFailed: a task failed; nothing was merged.
    """
    began = time.monotonic()
    found = (
        _complete(sides, ready.member)
        if ready.keys is None
        else _fast(sides, ready, mine)
    )
    return replace(found, seconds=time.monotonic() - began)


def _fast(sides: Sides, ready: Prepared, mine: Keys) -> Compared:
    left = _left(sides.site, ready.member)
    both = keys.together(mine, left)
    queries = _window_queries(ready, both, left)
    return Compared(
        member=ready.member,
        difference=_staged(sides, ready.member, queries, twice=bool(both.num_rows)),
        window_keys=ready.count + both.num_rows,
    )


def _left(site: Side, member: Member) -> Keys:
    """Keys of the site's rows that may have left with a row that a master hides now.

    It hides them too, so they are in no window that is read there.
    """
    found = images.left(site, member) if member.master.divided else None
    return keys.none(member.snapshot.key_names) if found is None else found


def _complete(sides: Sides, member: Member) -> Compared:
    """Compare all rows, or only those of the buckets that differ."""
    if not member.summed_up or buckets.mostly_differ(sides, member):
        return _all_staged(sides, member, None)
    return replace(_by_sums(sides, member), by_sums=True)


def _by_sums(sides: Sides, member: Member) -> Compared:
    found = buckets.differing(sides, member)
    if not found.numbers:
        return comparison.equal(member)
    none = keys.none(member.snapshot.key_names)
    few = Small(member=member, changed=none, mine=none, differing=found)
    most = comparison.most_rows(sides.master, member.snapshot.master)
    if found.rows <= most and not comparison.is_too_wide(sides, few):
        return next(comparison.compare(sides, [few]))
    return _all_staged(sides, member, None if found.most else found)


def _all_staged(sides: Sides, member: Member, differing: Differing | None) -> Compared:
    queries = comparison.of_all(sides, member, differing)
    staged = _staged(sides, member, queries, twice=False)
    return Compared(member=member, difference=staged, window_keys=None)


_Queries = tuple[list[Select[Any]], list[Select[Any]]]


def _staged(sides: Sides, member: Member, queries: _Queries, *, twice: bool) -> Stage:
    with sides.site.site.transaction() as connection:
        table = stage.create(connection, member)
    attempts = difference.staged(
        source(sides.master, queries[0]),
        source(sides.site, queries[1]),
        images.schema(member),
        images.key_positions(member),
        difference.Target(table.schema, table.name),
        twice=twice,
    )
    return Stage(
        table=table,
        attempts=tuple(attempts),
        rows=sum(attempts.values()),
    )


def _window_queries(ready: Prepared, mine: Keys, left: Keys) -> _Queries:
    member = ready.member
    assert member.since is not None
    assert ready.keys is not None
    parts = min(ready.count // PART + 1, MOST_PARTS)
    theirs = [
        images.of_changed(member, member.since, part=(n, parts)) for n in range(parts)
    ]
    theirs += [images.of_keys(member, some) for some in keys.chunks(mine)]
    kinds = member.key_types(member.base)
    gone = (select(*keys.as_rows(some, kinds).c) for some in keys.chunks(left))
    here = [select(*ready.keys.c), member.snapshot.logged_keys(), *gone]
    present = [images.at_site(member, here, part=(n, parts)) for n in range(parts)]
    return theirs, present


def source(side: Side, queries: Sequence[Select[Any]]) -> difference.Side:
    """What executors read of a database, at the moment of this process."""
    texts = [literal_text(query) for query in queries]
    side.site.release()
    return difference.Side(side.site.libpq_uri(), texts, side.moment())
