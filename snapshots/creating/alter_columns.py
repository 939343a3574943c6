"""Change which columns a snapshot has, without taking it away from its users."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from psycopg import errors as pg
from sqlalchemy import Connection, func, select
from sqlalchemy.exc import OperationalError

import deferred
from deferred.batches import pusher
from deferred.errors import PushRunning
from deferred.queues import alter_columns as queued
from deferred.queues.queue import Queue, find_queue
from masters.errors import UnknownColumn
from masters.numbers.columns import Method
from sites import faults
from sites.capture import position
from sites.names import quoted
from sites.progress import Progress
from sites.sessions import identity
from sites.sessions.site import Site
from sites.tables import ddl, locks
from snapshots.creating import (
    alter,
    columns_altered,
    columns_asked,
    columns_plan,
    fill_columns,
    numbers,
)
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

#: How often the queue is pushed before it counts as one that cannot be emptied.
ATTEMPTS = 5


def alter_columns(
    site: Site,
    name: str,
    *,
    add: Sequence[str] = (),
    drop: Sequence[str] = (),
    rename: Mapping[str, str] | None = None,
    widen: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    condition: Condition | None = None,
    progress: Progress | None = None,
) -> ColumnsReport:
    """Give a snapshot further columns of its master table; take, rename, widen some.

    Views, grants, users' triggers, the queue and the position stay. A new column is
    filled before users see it, while they write on; then they wait for a moment. Rows
    that they lock or have changed meanwhile are left to the next refresh, and have the
    default until then that the master has, if that is a constant, and otherwise NULL.
    If the site refuses a value, all rows are.

    Before columns are added or dropped, what waits in the queue is pushed, because it
    was made without or with them. What waits for renamed columns goes to the columns
    that the master has for them. If the master has dropped a column, only changes that
    give it a value are pushed before: they are parked there.

    Parameters:
        add: columns of the master table.
        drop: columns of the snapshot; the master may have dropped them already.
        rename: new names of columns that the master has renamed, by those of before.
        widen: columns, by their new names, that get the wider type which the master
            has: a longer text, number or time, or a larger kind of integer. Users wait
            while PostgreSQL writes all rows anew, if it has to; it is refused where
            there are more than a few.
        columns: all columns that the snapshot is to have, instead of `add` and `drop`.
            DDL that the master has for its sites (`masters.execute_ddl`) up to now then
            changes them no more.
        condition: another one, if the present one uses columns that are renamed or
            dropped.
        progress: is told how many pages of the master table have been read.

    Raises:
        UnknownSnapshot, RefreshRunning, PushRunning: not now.
        PositionMoved: a refresh ran all the same; nothing was altered.
        UnknownColumn, SnapshotRefused, BadCondition: as for a new snapshot.
        ColumnsRefused: the columns cannot be altered like that; the message says why.
        StillNeeded: views, triggers or functions of users need a column that is to be
            dropped, or its present type.
        CallsUseColumn: changes wait that give a dropped column a value, and the master
            table was made anew since.
        UndeliveredCalls: users add calls faster than the push delivers them.
        the errors of `deferred.push`: nothing was altered.
    """
    with site.session() as connection:
        identity.confirm(connection, site.name)
        group = snapshot.read(connection, name).refresh_group
    with refresh_group.exclusively(site, group) as connection:
        one = snapshot.read(connection, name)
        wanted = columns_asked.asked(
            one,
            add=add,
            drop=drop,
            rename=rename or {},
            widen=widen,
            columns=columns,
        )
        decided = () if columns is None else None
        return altered(
            connection,
            site,
            one,
            wanted,
            condition,
            followed=decided,
            progress=progress,
        )


def altered(
    connection: Connection,
    site: Site,
    one: Snapshot,
    wanted: Asked,
    condition: Condition | None = None,
    *,
    followed: Sequence[str] | None = (),
    progress: Progress | None = None,
) -> ColumnsReport:
    """The same for callers that hold the lock of the group's refreshes.

    Parameters:
        followed: as for `columns_plan.planned`.
    """
    plan = columns_plan.planned(connection, site, one, wanted, condition, followed)
    with fill_columns.filled(site, plan, progress) as rows:
        _lease(site, plan)
        report = _altered(site, plan, filled=rows is not None)
    faults.point("snapshot_alter.after_columns")
    return replace(report, filled=rows)


def _lease(site: Site, plan: Plan) -> None:
    """Lease numbers for new columns, which users draw from as soon as they see them."""
    for name, method in plan.definition.numbers.items():
        if name in plan.wanted.add and method is Method.LEASE:
            numbers.lease_numbers(site, f"{plan.now.key}.{quoted(name)}")


def _altered(site: Site, plan: Plan, *, filled: bool) -> ColumnsReport:
    """Empty the queue as far as needed, and alter the snapshot."""
    pushed: list[int] = []
    push = partial(_push, site, plan, pushed)
    if plan.empties_queue and plan.before.loaded:
        push()
    report = _while_nobody_pushes(site, partial(_between_pushes, plan, filled))
    for _ in range(ATTEMPTS):
        if report is None:
            push()
            after = partial(_after_push, plan, filled, push)
            report = _while_nobody_pushes(site, after)
    if report is None:
        raise UndeliveredCalls(
            f"Changes of {plan.before.key} wait in spite of several pushes.",
            snapshot=plan.before.key,
        )
    return replace(report, pushed=sum(pushed))


def _push(site: Site, plan: Plan, pushed: list[int]) -> None:
    """Push what waits.

    Parameters:
        pushed: is told how many transactions went.

    Raises:
        CallsUseColumn: the master table was made anew without a column, so that nothing
            says which one changes of it were made for.
    """
    try:
        pushed.append(deferred.push(site, plan.master.name).transactions)
    except UnknownColumn as error:
        if not plan.gone or error.facts.get("table") != str(plan.before.master):
            raise
        raise CallsUseColumn(
            f"Changes of {plan.before.key} wait that give a value to "
            f"{', '.join(sorted(plan.gone))}, which the master table, made anew, does "
            "not have.",
            snapshot=plan.before.key,
            columns=sorted(plan.gone),
        ) from error


def _between_pushes(
    plan: Plan, filled: bool, connection: Connection
) -> ColumnsReport | None:
    """Alter the snapshot; None if calls wait again."""
    queue = find_queue(connection, plan.before.key)
    _keep_pushes_out(connection, queue)
    if queue is not None and _waits(connection, plan, queue, position.START):
        return None
    seen = position.current(connection)
    _lock(connection, plan)
    if queue is not None and _waits(connection, plan, queue, seen):
        return None
    return _alter(connection, plan, queue, filled=filled)


def _after_push(
    plan: Plan, filled: bool, push: Callable[[], None], connection: Connection
) -> ColumnsReport | None:
    """Push the last few calls while users wait, and alter the snapshot.

    Users who write again and again never leave the queue empty. If the push takes too
    long, the server ends this session, and users go on.

    Parameters:
        push: pushes what waits.

    Returns:
        None if calls wait even so, or if it took too long.
    """
    connection.execute(select(func.set_config(_IDLE, locks.MOMENT, True)))
    _lock(connection, plan)
    push()
    try:
        queue = find_queue(connection, plan.before.key)
    except OperationalError as error:
        if not isinstance(error.orig, pg.IdleInTransactionSessionTimeout):
            raise
        return None
    _keep_pushes_out(connection, queue)
    if queue is not None and _waits(connection, plan, queue, position.START):
        return None
    return _alter(connection, plan, queue, filled=filled)


#: How long the server waits for the next statement of a transaction.
_IDLE = "idle_in_transaction_session_timeout"

_Way = Callable[[Connection], ColumnsReport | None]


def _while_nobody_pushes(site: Site, way: _Way) -> ColumnsReport | None:
    """Alter the snapshot in one of two ways, once no push and no lock is in the way."""
    for turn in pusher.waiting_for_pushes():
        with turn:
            for attempt in locks.patiently():
                with attempt, site.transaction() as connection:
                    locks.briefly(connection, fill_columns.LOCK_TIMEOUT)
                    return way(connection)
    raise AssertionError("unreachable")


def _lock(connection: Connection, plan: Plan) -> None:
    """Keep users off the snapshot: the view first, as their statements lock them."""
    one = plan.before
    ddl.lock(connection, one.qualified if one.loaded else one.base)


def _keep_pushes_out(connection: Connection, queue: Queue | None) -> None:
    if queue is not None and not pusher.keep_out(connection, queue.destination):
        raise PushRunning(f"A push to {queue.destination} is running.")


def _alter(
    connection: Connection, plan: Plan, queue: Queue | None, *, filled: bool
) -> ColumnsReport:
    plan.group.lock(connection, new_matters=bool(plan.conditions))
    left_out = columns_altered.alter_tables(connection, plan, queue, filled=filled)
    if plan.conditions:
        alter.replace_conditions(connection, plan.conditions, plan.copied)
    faults.point("snapshot_alter.before_columns")
    return ColumnsReport(
        snapshot=plan.before.key,
        group=plan.before.refresh_group,
        columns=plan.now.columns,
        condition=plan.now.condition,
        left_out=left_out,
    )


def _waits(connection: Connection, plan: Plan, queue: Queue, since: str) -> bool:
    """Whether calls wait that have to be pushed before.

    Calls that give a value to a column which the master has dropped are parked there:
    here the value would be lost with the column. The others can wait.
    """
    changing = plan.gone & {*queue.columns}
    if changing and queued.waits(connection, queue, changing=changing, since=since):
        return True
    return plan.empties_queue and queued.waits(connection, queue, since=since)
