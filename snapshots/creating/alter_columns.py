"""Change which columns a snapshot has, without taking it away from its users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Connection

import deferred
from deferred.batches import pusher
from deferred.errors import PushRunning
from deferred.queues import alter_columns as queued
from deferred.queues.queue import Queue, find_queue
from sites import faults
from sites.capture import position
from sites.sessions import identity
from sites.sessions.site import Site
from sites.tables import ddl, locks
from snapshots.creating import alter, columns_altered, columns_asked, columns_plan
from snapshots.creating.alter import Condition
from snapshots.creating.columns_asked import Asked
from snapshots.creating.columns_plan import Plan
from snapshots.definitions import refresh_group, snapshot
from snapshots.definitions.errors import (
    CallsUseColumn,
    UndeliveredCalls,
)
from snapshots.definitions.snapshot import Snapshot
from snapshots.reports import ColumnsReport

#: How often the queue is pushed before it counts as filled faster than it empties.
ATTEMPTS = 5


def alter_columns(
    site: Site,
    name: str,
    *,
    add: Sequence[str] = (),
    drop: Sequence[str] = (),
    rename: Mapping[str, str] | None = None,
    columns: Sequence[str] | None = None,
    condition: Condition | None = None,
) -> ColumnsReport:
    """Give a snapshot further columns of its master table, take some, or rename them.

    Views, grants, users' triggers, the queue and the position stay. The next refresh
    fills a new column; until then rows have the default that the master has for it,
    if that is a constant, and otherwise NULL. Users wait for a moment.

    Before columns are added or dropped, what waits in the queue is pushed, because it
    was made without or with them. What waits for renamed columns goes to the columns
    that the master has for them.

    Parameters:
        add: columns of the master table.
        drop: columns of the snapshot; the master may have dropped them already.
        rename: new names of columns that the master has renamed, by those of before.
        columns: all columns that the snapshot is to have, instead of `add` and `drop`.
            DDL that the master has for its sites (`masters.execute_ddl`) up to now then
            changes them no more.
        condition: another one, if the present one uses columns that are renamed or
            dropped.

    Raises:
        UnknownSnapshot, RefreshRunning, PushRunning: not now.
        UnknownColumn, SnapshotRefused, BadCondition: as for a new snapshot.
        ColumnsRefused: the columns cannot be altered like that; the message says why.
        CallsUseColumn: changes wait that give a dropped column a value.
        StillNeeded: views or functions of users use a column that is to be dropped.
        UndeliveredCalls: users add calls faster than the push delivers them.
        the errors of `deferred.push`: nothing was altered.
    """
    with site.session() as connection:
        identity.confirm(connection, site.name)
        group = snapshot.read(connection, name).refresh_group
    with refresh_group.exclusively(site, group) as connection:
        one = snapshot.read(connection, name)
        wanted = columns_asked.asked(
            one, add=add, drop=drop, rename=rename or {}, columns=columns
        )
        decided = () if columns is None else None
        return altered(connection, site, one, wanted, condition, followed=decided)


def altered(
    connection: Connection,
    site: Site,
    one: Snapshot,
    wanted: Asked,
    condition: Condition | None = None,
    *,
    followed: Sequence[str] | None = (),
) -> ColumnsReport:
    """The same for callers that hold the lock of the group's refreshes.

    Parameters:
        followed: as for `columns_plan.planned`.
    """
    plan = columns_plan.planned(connection, site, one, wanted, condition, followed)
    pushed = 0
    for _ in range(ATTEMPTS):
        pushed += _pushed(site, plan)
        report = _alter_between_pushes(site, plan)
        if report is not None:
            faults.point("snapshot_alter.after_columns")
            return replace(report, pushed=pushed)
    raise UndeliveredCalls(
        f"Users change {one.key} faster than its changes are pushed.",
        snapshot=one.key,
    )


def _pushed(site: Site, plan: Plan) -> int:
    """Push what was made with other columns, and return how many transactions went."""
    if not (plan.empties_queue and plan.before.loaded):
        return 0
    return deferred.push(site, plan.master.name).transactions


def _alter_between_pushes(site: Site, plan: Plan) -> ColumnsReport | None:
    """Alter the snapshot while no push is at work; None if calls wait again."""
    for turn in pusher.waiting_for_pushes():
        with turn:
            for attempt in locks.patiently():
                with attempt, site.transaction() as connection:
                    locks.briefly(connection)
                    report = _alter(connection, plan)
                    faults.point("snapshot_alter.before_columns")
                    return report
    raise AssertionError("unreachable")


def _alter(connection: Connection, plan: Plan) -> ColumnsReport | None:
    one = plan.before
    queue = find_queue(connection, one.key)
    if queue is not None and not pusher.keep_out(connection, queue.destination):
        raise PushRunning(f"A push to {queue.destination} is running.")
    if queue is not None and _waits(connection, plan, queue, position.START):
        return None
    seen = position.current(connection)
    # The view first, as users' statements lock them.
    ddl.lock(connection, one.qualified if one.loaded else one.base)
    if queue is not None and _waits(connection, plan, queue, seen):
        return None
    left_out = columns_altered.alter_tables(connection, plan, queue)
    if plan.conditions:
        alter.replace_conditions(connection, plan.master, plan.conditions)
    return ColumnsReport(
        snapshot=one.key,
        group=one.refresh_group,
        columns=plan.now.columns,
        condition=plan.now.condition,
        left_out=left_out,
    )


def _waits(connection: Connection, plan: Plan, queue: Queue, since: str) -> bool:
    """Whether calls wait that have to be pushed before.

    Raises:
        CallsUseColumn: they cannot be, because the master has dropped a column.
    """
    changing = plan.gone & {*queue.columns}
    if changing and queued.waits(connection, queue, changing=changing, since=since):
        raise CallsUseColumn(
            f"Changes of {plan.before.key} wait that give a value to "
            f"{', '.join(sorted(changing))}, which the master has dropped.",
            snapshot=plan.before.key,
            columns=sorted(changing),
        )
    return plan.empties_queue and queued.waits(connection, queue, since=since)
