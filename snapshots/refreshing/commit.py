"""The one transaction at the site that brings a group to its new moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial

from sqlalchemy import Connection, exists, not_, or_, select, update
from sqlalchemy.exc import DBAPIError

from deferred import sqlstate
from deferred.parked import withdrawn
from deferred.queues.queue import Queue, list_queues
from sites import faults, retry, traces
from snapshots.definitions import fitting, refresh_group
from snapshots.definitions.definition import Definition, define
from snapshots.definitions.errors import ChangeWithdrawn
from snapshots.definitions.policy import Leaving
from snapshots.definitions.refresh_notes import Done
from snapshots.definitions.snapshot import Behind, Snapshot
from snapshots.differences.comparison import Compared
from snapshots.differences.moment import Moment
from snapshots.differences.window import LOAD, Member, Window
from snapshots.errors import CannotMerge, UsersInTheWay
from snapshots.merging import held_back, kept, merge, obstacles, settling, work, writing
from snapshots.merging.merge import Merged
from snapshots.merging.work import Work
from snapshots.refreshing import first_load
from snapshots.refreshing.first_load import Loaded
from snapshots.refreshing.task import Task
from snapshots.reports import SnapshotReport


@traces.span("merge")
def commit(
    task: Task,
    seen: Window,
    compared: Sequence[Compared],
    here: str,
    loaded: Mapping[str, Loaded],
) -> dict[str, Merged]:
    """Bring the group to the moment that was read, and report on each snapshot.

    Parameters:
        here: the moment of the site at which its rows were read.
        loaded: by snapshot, its first load.
    """
    writing = partial(_commit, task, seen, compared, here, loaded)
    return retry.in_new_sessions(task.site.release, writing)


def _commit(
    task: Task,
    seen: Window,
    compared: Sequence[Compared],
    here: str,
    loaded: Mapping[str, Loaded],
) -> dict[str, Merged]:
    definitions = _definitions(task, seen)
    methods = {m.snapshot.key: m.method for m in seen.members}
    new = [m for m in seen.members if m.method == LOAD]
    with task.site.transaction() as connection:
        for member in new:
            first_load.claim(connection, member, loaded[member.snapshot.key].load)
        touched = _touched(compared)
        written = [found.member for found in touched]
        sizes = merge.prepare(connection, task.group, written)
        # Read once: while the group is refreshed, nobody alters its snapshots.
        queues = _queues(connection)
        merged = _unwritten(compared)
        if touched:
            with named():
                group = _filled(connection, seen, touched, queues, sizes)
                merged |= _write(connection, task, seen, group)
        for found in compared:
            if found.member.snapshot.leaving == Leaving.KEEP:
                back = found.member.snapshot.logged_keys()
                kept.release(connection, found.member, back)
        read = [found.member.snapshot for found in compared]
        settling.clear(connection, read, seen, here)
        for member in new:
            definition = definitions[member.snapshot.key]
            first_load.finish(connection, member, definition, task.master.name)
        if new:
            queues = _queues(connection)  # those of the new snapshots are made now
        done = _done(task, methods, compared, merged, loaded)
        settling.settle(connection, task.group, seen, methods, merged, queues, done)
        refresh_group.leave_behind(
            connection, task.group, seen.master.incarnation, task.left
        )
        faults.point("refresh.before_merge_commit")
    return merged


def _done(
    task: Task,
    methods: Mapping[str, str],
    compared: Sequence[Compared],
    merged: Mapping[str, Merged],
    loaded: Mapping[str, Loaded],
) -> Done:
    """What the refresh did, for its note."""
    held = Counter[str]()
    for one in merged.values():
        held.update(one.held)
    written = [one.report for one in merged.values()]
    return Done(
        steps=task.steps.seconds,
        methods=[*methods.values()],
        ways={
            one.member.snapshot.key: asdict(one.way)
            for one in compared
            if one.way is not None
        },
        inserted=sum(one.inserted for one in written)
        + sum(one.rows for one in loaded.values()),
        updated=sum(one.updated for one in written),
        deleted=sum(one.deleted for one in written),
        held=held,
        error=_stays_behind(task.left),
    )


def _stays_behind(left: Sequence[tuple[Snapshot, Behind]]) -> str | None:
    """One line on the snapshots that a refresh leaves behind; None if there are none.

    Those that only depend on others come last.
    """
    if not left:
        return None
    told = [f"{one.key}: {why}" for one, why in left if why.depends_on is None]
    others = [one.key for one, why in left if why.depends_on is not None]
    if others:
        told.append(f"with what depends on it: {', '.join(others)}")
    return f"Stays behind; {'; '.join(told)}"


def _queues(connection: Connection) -> dict[str, Queue]:
    """The queues of the site, by snapshot."""
    return {one.snapshot: one for one in list_queues(connection)}


def _unwritten(compared: Sequence[Compared]) -> dict[str, Merged]:
    """What is reported of snapshots that do not differ."""
    reports = (
        SnapshotReport(name=found.member.snapshot.key, method=found.member.method)
        for found in compared
    )
    return {one.name: Merged(report=one) for one in reports}


def _filled(
    connection: Connection,
    seen: Window,
    touched: Sequence[Compared],
    queues: Mapping[str, Queue],
    sizes: Mapping[str, int],
) -> list[Work]:
    """The differences, in work tables."""
    group = [
        work.create(
            connection,
            found.member,
            number,
            seen.position,
            found.because,
            queues.get(found.member.snapshot.key),
            sizes if work.is_small(found.difference) else None,
        )
        for number, found in enumerate(touched)
    ]
    for changes, found in zip(group, touched, strict=True):
        with fitting.known_values(found.member.snapshot):
            work.take(connection, changes, found.difference)
        if found.leaving is not None:
            work.mark_leaving(connection, changes, found.leaving)
    return group


def _write(
    connection: Connection, task: Task, seen: Window, group: Sequence[Work]
) -> dict[str, Merged]:
    """Write the differences."""
    gone = withdraw(connection, group, seen, task)
    done = merge.merge(connection, group, seen, task.options)
    return {
        name: replace(one, report=replace(one.report, withdrawn=gone.get(name, 0)))
        for name, one in done.items()
    }


def _touched(compared: Sequence[Compared]) -> list[Compared]:
    """Those that differ, and those that foreign keys join to them, near or far."""
    tables = {found.member.base.qualified for found in compared}
    touched = {f.member.base.qualified for f in compared if f.differs}
    pairs = [
        {found.member.base.qualified, key.parent}
        for found in compared
        for key in found.member.base.foreign_keys
        if key.parent in tables
    ]
    while more := [pair for pair in pairs if pair & touched and pair - touched]:
        touched.update(*more)
    return [found for found in compared if found.member.base.qualified in touched]


@contextmanager
def named() -> Iterator[None]:
    """Tell rows that the site refuses from locks that another session holds.

    Raises:
        CannotMerge: names the type, trigger or constraint that refuses rows.
        UsersInTheWay: a lock was not free in time, or there was a deadlock.
    """
    try:
        yield
    except DBAPIError as error:
        if sqlstate.gave_way(error):
            raise UsersInTheWay(
                f"The refresh gave way to users of the site: {sqlstate.message(error)}"
            ) from error
        raise CannotMerge(f"The site refuses the rows: {error.orig}") from error


def _definitions(task: Task, seen: Window) -> dict[str, Definition]:
    """What new snapshots need to know of their master tables."""
    return {m.snapshot.key: _defined(task, m) for m in seen.members if m.method == LOAD}


def _defined(task: Task, member: Member) -> Definition:
    one = member.snapshot
    there = [name for name in one.columns if name not in member.old]
    found = define(
        task.master,
        one.master,
        columns=there,
        condition=None,
        updatable=one.updatable,
        exists=True,
        partner=True,
    )
    if not member.old:
        return found
    return replace(found, table=member.master, columns=one.columns)


def withdraw(
    connection: Connection, group: Sequence[Work], window: Moment, task: Task
) -> dict[str, int]:
    """Withdraw changes of rows that leave a snapshot with the policy park.

    The rows can then leave at once. So do rows that users added below them: the master
    does not know these, but their parents leave. What was withdrawn stands in the error
    queue of the site (`deferred.parked.withdrawn`).

    Returns:
        By snapshot, how many transactions with changes of it were withdrawn.
    """
    if all(w.member.snapshot.leaving != Leaving.PARK for w in group):
        return {}
    ordered = writing.in_order(group)
    chosen = [w for w in ordered if w.member.snapshot.leaving == Leaving.PARK]
    for changes in chosen:
        _mark_added(connection, changes, ordered, window)
    names = [w.member.snapshot.key for w in chosen]
    wanted = withdrawn.Withdrawal(
        site=task.who,
        destination=task.group.master,
        batch_no=window.marker.batch_no,
        order_no=window.marker.order_no,
        rows={
            w.member.snapshot.key: select(
                *(
                    key.label(name)
                    for key, name in zip(
                        w.keys, w.member.snapshot.key_names, strict=True
                    )
                )
            ).where(w.table.c.leaves)
            for w in chosen
        },
        error_code=ChangeWithdrawn.code,
        error_message=f"Rows left {', '.join(names)} before the change was pushed.",
    )
    return withdrawn.withdraw(connection, wanted)


def _mark_added(
    connection: Connection, changes: Work, group: Sequence[Work], window: Moment
) -> None:
    """Have rows leave that users added below rows that leave."""
    by_table = {w.staged.table.qualified: w for w in group}
    base = changes.staged.table.sql().alias("row")
    below = []
    for link in work.links_up(changes, by_table):
        above = link.parent.staged.table.sql().alias("above")
        goes = link.parent.table.alias("goes")
        below.append(
            exists().where(
                goes.c.leaves,
                link.parent.staged.same_row(above, goes),
                obstacles.refers(link, base, above),
                changes.staged.same_row(base),
            )
        )
    if below:
        table = changes.table
        connection.execute(
            update(table)
            .where(
                table.c.kind == "D",
                not_(table.c.leaves),
                held_back.is_pending(changes, window),
                or_(*below),
            )
            .values(leaves=True)
        )
