"""Recognizes refreshes that have nothing to do, as most of them have.

Few statements find this out, each of them for the whole group. Such a refresh moves no
position, so neither side has to remember the contact: nothing depends on it. Even so,
the group shows the master as it is now.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from functools import lru_cache

import sqlalchemy as sa
from sqlalchemy import Connection, cast, func, select

from deferred.batches import marker
from deferred.batches.marker import Marker
from deferred.queues import refresh_coverage
from masters import group_schema
from masters.group_schema import SchemaVersion
from masters.log import catalog as log_catalog
from masters.log import registration
from sites.capture import position
from sites.conditions import ranges
from sites.names import QualifiedName
from sites.sessions.identity import Identity
from sites.sessions.prepared import Prepared
from sites.tables.glance import Glance, glance
from sites.transfer.types import PgSnapshot
from snapshots.definitions import (
    parents,
    refresh_group,
    refresh_notes,
    rewrites,
    snapshot,
)
from snapshots.definitions.snapshot import Snapshot
from snapshots.differences.window import FAST
from snapshots.refreshing.task import Task

#: A master hears of a snapshot at least this often, whether anything changes or not.
SILENCE = timedelta(days=1)


def unchanged_position(
    master: Connection,
    site: Connection,
    task: Task,
    them: Identity,
    known: Collection[str],
    logs: Mapping[QualifiedName, str],
) -> str | None:
    """The master's position, if a turn may end here because nothing differs.

    That is noted at the site, then. If it is None, the turn looks closer, and says what
    is wrong if anything is.

    Parameters:
        master: in the transaction whose moment the group will show.
        site: its moment begins after the master's.
        them: the identity of the master, as it was just read.
        known: snapshots that were registered at the master all the time.
        logs: by table, as they were just read.
    """
    whose = task.group.master_id, task.group.incarnation
    if not _is_settled(task, known) or (them.site_id, them.incarnation) != whose:
        return None
    if not all(table in logs for table in task.tables()):
        return None
    quiet = _if_nothing_came(master, task, logs)
    if quiet is None:
        return None
    here, at = quiet
    if not _looks_as_before(master, site, task):
        return None
    # Not rolled back: after a rollback, a session prepares its statements again.
    site.commit()
    return here if _noted(site, task, here, at) else None


def _noted(site: Connection, task: Task, here: str, at: Marker) -> bool:
    """Note that the group is up to date, if nothing at the site speaks against it.

    No key is to be read again because of changes at the site, and the queues are noted
    as covered up to the marker, too, as purge needs.

    Nothing depends on the note, so the commit does not wait for the disk.
    """
    keys = tuple(m.key for m in task.members if m.updatable)
    views = tuple(m.log_view for m in task.members)
    given = {
        "its_moment": here,
        "its_batch": at.batch_no,
        "its_order": at.order_no,
        **refresh_notes.took(task.steps.seconds),
    }
    with site.begin():
        return bool(_noting(task.group.name, keys, views).run(site, **given).all())


@lru_cache(maxsize=128)
def _noting(name: str, keys: tuple[str, ...], views: tuple[str, ...]) -> Prepared:
    """Notes that a group is up to date, if nothing at the site speaks against it.

    Building it takes longer than running it. Its parameters are a marker, `its_batch`
    and `its_order`, and those of `refresh_group.refreshed` and
    `refresh_notes.nothing_new`.

    Parameters:
        keys: the updatable snapshots.
        views: the updatable snapshot logs of all.
    """
    at = (sa.bindparam(f"its_{of}", type_=sa.BigInteger) for of in ("batch", "order"))
    answered = sa.and_(
        refresh_coverage.covers(keys, *at),
        *(sa.not_(snapshot.holds_keys(view)) for view in views),
    )
    noting = refresh_group.refreshed(name).where(answered)
    notes = refresh_notes.nothing_new(name, noting, [FAST])
    quick = func.set_config("synchronous_commit", "off", True)
    statement = snapshot.refreshed(name, FAST).where(answered).add_cte(*notes)
    return Prepared(statement.returning(quick))


def _is_settled(task: Task, known: Collection[str]) -> bool:
    """Whether the group is loaded and without error, and may be refreshed fast.

    Not if one stays behind: whether it can be refreshed again has to be looked at.
    """
    return (
        task.group.position is not None
        and task.group.last_error is None
        and "c" not in task.methods.values()
        and not task.left
        and all(m.loaded and m.behind is None and m.key in known for m in task.members)
    )


def _if_nothing_came(
    master: Connection, task: Task, logs: Mapping[QualifiedName, str]
) -> tuple[str, Marker] | None:
    """The master's position and the site's marker, if the logs hold nothing new.

    None also if they do not reach back, if rows could be purged from them once this
    site's position is known, if the master has forgotten it meanwhile, knows it with
    another one or has not heard of it for long, or if DDL changed the tables or
    replaced a function that a condition calls.
    """
    since = str(task.group.position)
    versions = tuple((m.master, m.seen) for m in task.members)
    wanted = {
        "its_id": task.who.site_id,
        "its_snapshots": [m.key for m in task.members],
        "its_position": since,
        **rewrites.functions_asked(task.members),
    }
    question = _question(tuple(logs.items()), versions)
    here, at, something, called = question.run(master, **wanted).one()
    if something or any(
        rewrites.functions_differ(one, rewrites.functions_of(one, called))
        for one in task.members
    ):
        return None
    return str(here), marker.seen(at)


@lru_cache(maxsize=128)
def _question(
    logs: tuple[tuple[QualifiedName, str], ...],
    versions: tuple[tuple[QualifiedName, SchemaVersion | None], ...],
) -> Prepared:
    """Asks a master for its position, and whether anything speaks against it.

    Building it takes longer than running it. Its parameters are `its_id`,
    `its_position` and `its_snapshots`, and those of `rewrites.functions_asked`.

    Parameters:
        logs: by table.
        versions: the shapes of the tables at the last refresh.
    """
    since = sa.bindparam("its_position", type_=sa.Text)
    old, now = cast(since, PgSnapshot()), func.pg_current_snapshot()
    reasons: list[sa.ColumnElement[bool]] = [
        log_catalog.any_too_young(dict(logs), since),
        func.pg_snapshot_xmax(now) < func.pg_snapshot_xmax(old),
        registration.forgotten(),
        registration.silent(SILENCE),
        registration.shows_other(since),
        group_schema.other_than(dict(versions)),
    ]
    for _, name in logs:
        xid = log_catalog.rows_of(name).c.xid
        # The last row is found at the end of an index. With EXISTS, the server may read
        # all rows from before the position, if they are kept for another site.
        purged = select(func.max(xid)).where(xid < func.pg_snapshot_xmin(now))
        kept = purged.scalar_subquery() >= func.pg_snapshot_xmin(old)
        reasons += [position.any_since(xid, old), func.coalesce(kept, sa.false())]
    asked = select(cast(now, sa.Text), marker.SEEN, sa.or_(*reasons), rewrites.CALLED)
    return Prepared(asked)


def _looks_as_before(master: Connection, site: Connection, task: Task) -> bool:
    """Whether the tables are those of the last refresh, foreign keys included."""
    whole = [m.master for m in task.members if m.condition is None]
    there = glance(master, task.tables(), whole)
    bases = [m.base for m in task.members]
    here = glance(site, bases, bases)
    return all(
        m.master in there
        and m.base in here
        and _fits(m, there[m.master])
        and _fits(m, here[m.base])
        and not rewrites.displaced(m, here[m.base].columns)
        and there[m.master].always <= here[m.base].references
        and _is_untouched(m, there[m.master], _files(master, m.master, there))
        and all(_is_same_parent(master, m, name, there) for name in m.asked)
        for m in task.members
    ) and not any(_has_other_parts(master, task, *one) for one in there.items())


def _has_other_parts(
    master: Connection, task: Task, name: QualifiedName, seen: Glance
) -> bool:
    """Whether a part of a table came since the last refresh, or came back."""
    since = str(task.group.position)
    return seen.alone is None and bool(ranges.parts_since(master, name, since))


def _files(
    master: Connection, name: QualifiedName, there: Mapping[QualifiedName, Glance]
) -> dict[int, int]:
    """The tables that hold the rows of a master table, by oid, and their files."""
    seen = there[name]
    if seen.alone is not None:
        return {seen.alone: seen.file}
    found = ranges.leaves(master, name)
    return {oid: leaf.file for oid, leaf in found.items()}


def _is_same_parent(
    master: Connection,
    member: Snapshot,
    name: QualifiedName,
    there: Mapping[QualifiedName, Glance],
) -> bool:
    """Whether a table that a condition asks is as the last refresh saw it."""
    if name not in there or there[name].hides_rows:
        return False
    files = _files(master, name, there)
    return not parents.is_rewritten(member, name, there[name].columns, files)


def _is_untouched(member: Snapshot, seen: Glance, files: rewrites.Files) -> bool:
    """Whether no DDL, only statements on rows, has changed, added or removed rows."""
    return (
        files.keys() == set(member.master_parts or ())
        and rewrites.why_rewritten(member, seen.columns, files) is None
    )


def _fits(member: Snapshot, seen: Glance) -> bool:
    return not seen.hides_rows and seen.columns.keys() >= set(member.columns)
