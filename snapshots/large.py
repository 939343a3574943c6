"""Comparing more rows than one process should hold: executors read and stage them.

All of them see the moment that the transactions here have exported.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection, Select, func, select

from sites import ranges, transport
from sites.site import Site
from sites.transport import literal_text
from snapshots import difference, images, stage, window
from snapshots.comparison import Compared
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The two databases of a comparison, each in a transaction that stays open."""

    master: Site
    site: Site
    at_master: Connection
    at_site: Connection


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


def compare(sides: Sides, seen: Window, ready: Prepared, mine: images.Keys) -> Compared:
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
    with sides.site.begin() as connection:
        table = stage.create(connection, member)
    load_id = uuid.uuid4()
    attempts = difference.staged(
        difference.Side(
            sides.master.libpq_uri(), _texts(queries[0]), _moment(sides.at_master)
        ),
        difference.Side(
            sides.site.libpq_uri(), _texts(queries[1]), _moment(sides.at_site)
        ),
        images.schema(member),
        images.key_positions(member),
        difference.Target(table.schema, table.name, load_id),
    )
    found = Stage(
        table=table,
        load_id=load_id,
        attempts=tuple(attempts),
        rows=sum(attempts.values()),
    )
    keys = None if ready.keys is None else ready.count + len(mine)
    return Compared(member=member, difference=found, window_keys=keys)


_Queries = tuple[list[Select[tuple[object, ...]]], list[Select[tuple[object, ...]]]]


def _window_queries(seen: Window, ready: Prepared, mine: images.Keys) -> _Queries:
    member = ready.member
    assert seen.since is not None
    assert ready.keys is not None
    parts = min(ready.count // PART + 1, MOST_PARTS)
    theirs = [
        images.of_changed(member, seen.since, part=(n, parts)) for n in range(parts)
    ]
    theirs += [
        images.of_keys(member, mine[first : first + images.CHUNK])
        for first in range(0, len(mine), images.CHUNK)
    ]
    keys = [select(*ready.keys.c), window.site_keys(member.snapshot)]
    present = [images.at_site(member, keys, part=(n, parts)) for n in range(parts)]
    return theirs, present


def _complete_queries(sides: Sides, member: Member) -> _Queries:
    theirs = ranges.ctid_ranges(sides.at_master, member.snapshot.master)
    present = ranges.ctid_ranges(sides.at_site, member.snapshot.base)
    return (
        [images.at_master(member, part) for part in theirs],
        [images.present(member, part) for part in present],
    )


def _texts(queries: list[Select[tuple[object, ...]]]) -> list[str]:
    return [literal_text(query) for query in queries]


def _moment(connection: Connection) -> str:
    return str(connection.scalar(select(func.pg_export_snapshot())))
