"""A refresh that finds nothing to do, which is what most of them find.

It moves no position, so neither side has to remember that they met: nothing would
be lost with it. The group shows the master as it is now all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import sqlalchemy as sa
from sqlalchemy import Connection, cast, func, literal, select, text

from deferred import covered
from masters import registration
from sites.types import PgSnapshot
from snapshots import base_table, large, refresh_group, snapshot
from snapshots.keys import Keys
from snapshots.task import Task
from snapshots.window import FAST, Window

#: A master hears of a snapshot at least so often, whether anything changes or not.
SILENCE = timedelta(days=1)


def is_idle(
    master: Connection,
    site: Connection,
    task: Task,
    seen: Window,
    ready: Sequence[Keys | large.Prepared],
    mine: Sequence[Keys],
) -> bool:
    """Whether a turn may end here: nothing differs, and no position need move.

    Parameters:
        master, site: in the transactions whose moments were read.
        ready, mine: the keys that changed at the master, and those of the site's log.
    """
    if any(ready) or any(mine) or any(m.method != FAST for m in seen.members):
        return False
    return (
        task.group.last_error is None
        and task.group.incarnation == seen.master.incarnation
        and not any(m.changed_parts for m in seen.members)
        and not base_table.missing_references(seen.members)
        and _answered(site, task, seen)
        and _needs_no_word(master, task, seen)
    )


def note(task: Task) -> None:
    """Note that the group was looked after; commits.

    Nothing is decided by it, so no disk is waited for.
    """
    with task.site.begin() as connection:
        connection.execute(text("SET LOCAL synchronous_commit = off"))
        refresh_group.note_refreshed(connection, task.group.name)
        snapshot.note_refreshed(connection, task.group.name, FAST)


def _answered(site: Connection, task: Task, seen: Window) -> bool:
    """Whether the queues are as far as the marker: purge asks them."""
    keys = [m.key for m in task.members if m.updatable]
    at = seen.marker
    return not keys or covered.covers(site, keys, at.batch_no, at.order_no)


def _needs_no_word(master: Connection, task: Task, seen: Window) -> bool:
    """Whether the log could let nothing go if it knew how far we are."""
    assert seen.since is not None
    old = cast(literal(seen.since), PgSnapshot())
    now = func.pg_current_snapshot()
    kept = [
        select(log.c.kind)
        .where(log.c.xid >= func.pg_snapshot_xmin(old))
        .where(log.c.xid < func.pg_snapshot_xmin(now))
        .exists()
        for log in (member.log() for member in seen.members)
    ]
    keys = [m.key for m in task.members]
    silent = registration.silent(task.who.site_id, keys, SILENCE)
    return not master.scalar(select(sa.or_(silent, *kept)))
