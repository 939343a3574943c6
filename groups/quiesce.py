"""Suspends a group until all its masters are equal, and lets it go on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import func, select

import deferred
from groups.change import (
    Connections,
    administered,
    change,
    lock_writers,
    refuse_busy,
    waiting_calls,
)
from groups.errors import CannotDrain
from groups.group import Group, Status, changed
from groups.pushes import push_round
from sites import Site

#: How often all masters push before the calls that still wait are reported.
ROUNDS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspendReport:
    """The state of a group after it was suspended."""

    group: str
    status: Status
    status_by: str | None
    status_since: datetime
    #: transactions that were pushed between its masters
    pushed: int
    #: transactions of its masters that stand in error queues, by master
    errors: dict[str, int]


def suspend(home: Site, name: str, *, by: str | None = None) -> SuspendReport:
    """Refuse users the tables of a group, and push until all masters are equal.

    (Oracle: SUSPEND_MASTER_ACTIVITY.) It waits for transactions that users have begun.
    Pushes of snapshots are refused too, and their calls stay queued. If a master does
    not answer, the group stays quiescing: run the command again, or resume.

    Parameters:
        home: the master definition site.
        by: the person who asks, for others to see; the database user by default.

    Raises:
        NoSuchGroup, NotDefinitionSite, SiteUnreachable, PushInterrupted.
        CannotDrain: calls stay in a queue, whatever is pushed.
    """
    _set(home, name, Status.QUIESCING, by)
    pushed = _drain(home, name)
    group = _set(home, name, Status.QUIESCED, by)
    return SuspendReport(
        group=name,
        status=group.status,
        status_by=group.status_by,
        status_since=group.status_since,
        pushed=pushed,
        errors={
            master: len(deferred.list_errors(home.peer(master)))
            for master in group.names
        },
    )


def resume(home: Site, name: str) -> Group:
    """Open the tables of a group to users again (Oracle: RESUME_MASTER_ACTIVITY).

    Raises:
        NoSuchGroup, NotDefinitionSite, SiteUnreachable.
    """
    return _set(home, name, Status.NORMAL, None)


def _set(home: Site, name: str, status: Status, by: str | None) -> Group:
    def with_status(group: Group, connections: Connections) -> Group:
        if group.status is status or (
            status is Status.QUIESCING and group.status is Status.QUIESCED
        ):
            return group
        lock_writers(connections, group.tables)
        if status is Status.QUIESCED:
            refuse_busy(connections, group.tables)
        user = connections[home.name].scalar(select(func.session_user()))
        return changed(
            group,
            status=status,
            status_by=None if status is Status.NORMAL else by or user,
            status_since=datetime.now(UTC),
        )

    return change(home, name, with_status)


def _drain(home: Site, name: str) -> int:
    """Push from master to master until no call is on its way.

    It waits for other pushers: rounds beside them do not count.
    """
    group, pushed, rounds = administered(home, name), 0, 0
    while True:
        waiting = [
            (master, to)
            for master in group.names
            for to in _waiting(home, master, group)
        ]
        if not waiting:
            return pushed
        if rounds == ROUNDS:
            break
        done = push_round(home, waiting)
        pushed += done.transactions
        rounds += 0 if done.others_at_work else 1
    told = ", ".join(f"{master} for {to}" for master, to in waiting)
    raise CannotDrain(f"Calls of group {name} still wait at {told}.", group=name)


def _waiting(home: Site, master: str, group: Group) -> list[str]:
    """The destinations that a master has calls of the group for."""
    with home.peer(master).transaction() as connection:
        return sorted({to for _, to in waiting_calls(connection, group.tables)})
