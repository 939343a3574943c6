"""How changes of a refresh group travel: by push, or with the user's commit."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

import psycopg
import sqlalchemy as sa
from psycopg import sql
from sqlalchemy import Connection

import deferred
from deferred.queues import define, queue
from sites.sessions import full, identity
from sites.sessions.site import OLDEST_VERSION, Site
from sites.tables import locks
from snapshots.definitions import refresh_group, snapshot
from snapshots.definitions.errors import (
    CannotPropagate,
    UndeliveredCalls,
)
from snapshots.definitions.refresh_group import RefreshGroup
from snapshots.errors import PositionMoved
from synchronous.refusal import notifying_triggers

#: How often the queue is pushed before it counts as filled faster than it empties.
ATTEMPTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PropagationReport:
    """How a refresh group propagates now."""

    group: str
    synchronous: bool
    snapshots: tuple[str, ...]
    #: transactions that were pushed first
    pushed: int = 0
    #: triggers at the master that send NOTIFY; if one fires, the commit fails
    notifying: tuple[str, ...] = ()


def alter_propagation(site: Site, what: str, *, synchronous: bool) -> PropagationReport:
    """Let a refresh group's changes go to the master in the user's own transaction,
    or by push (Oracle: ALTER_SNAPSHOT_PROPAGATION).

    Before a group goes synchronous, a trial transaction is prepared at the master and
    the queue is pushed empty. From then on, a change outside a coordinated transaction
    is refused.

    Parameters:
        what: a snapshot, or its group.

    Raises:
        UnknownSnapshot: there is no snapshot or group of that name.
        CannotPropagate: the master cannot prepare transactions, or its server is of
            another version.
        OlderSchema, NewerSchema: another version of Snaptide made the schema of a side.
        UndeliveredCalls: users add calls faster than the push delivers them;
            nothing was changed.
        PositionMoved: the group was switched to another master meanwhile.
    """
    group = _group(site, what)
    master = site.peer(group.master)
    found: list[str] = []
    pushed = 0
    if synchronous:
        found = _try(master)
    for _ in range(ATTEMPTS):
        if synchronous and _has_queues(site, group):
            pushed += deferred.push(site, group.master).transactions
        waiting = _switch(site, group, synchronous=synchronous)
        if not waiting:
            return PropagationReport(
                group=group.name,
                synchronous=synchronous,
                snapshots=_names(site, group),
                pushed=pushed,
                notifying=tuple(found),
            )
    raise UndeliveredCalls(
        f"{waiting} changes of group {group.name} are not delivered yet.",
        group=group.name,
        calls=waiting,
    )


def _group(site: Site, what: str) -> RefreshGroup:
    with site.session() as connection:
        identity.confirm(connection, site.name)
        found = refresh_group.find(connection, what)
        if found is None:
            name = snapshot.read(connection, what).refresh_group
            found = refresh_group.find(connection, name)
    assert found is not None
    return found


def _try(master: Site) -> list[str]:
    """Prepare a trial transaction at a master; return the triggers that notify."""
    with identity.confirmed(master) as connection:
        setting = connection.scalar(sa.text("SHOW max_prepared_transactions"))
        version = connection.scalar(sa.text("SHOW server_version_num"))
        found = notifying_triggers(connection)
    if int(version or 0) < OLDEST_VERSION:
        raise CannotPropagate(
            f"{master.name} is PostgreSQL {int(version or 0) // 10000}."
        )
    if setting == "0":
        raise CannotPropagate(
            f"{master.name} has max_prepared_transactions = 0.", master=master.name
        )
    try:
        _prepare(master)
    except psycopg.Error as error:
        reason = error.diag.message_primary or str(error)
        raise CannotPropagate(
            f"{master.name} cannot prepare a transaction: {reason}", master=master.name
        ) from error
    return found


def _prepare(master: Site) -> None:
    name = sql.Literal(f"trial:{secrets.token_hex(8)}")
    with full.wait_for(
        lambda: psycopg.connect(master.libpq_uri(), autocommit=True)
    ) as driver:
        driver.execute("BEGIN")
        driver.execute("SELECT pg_current_xact_id()")
        driver.execute(sql.SQL("PREPARE TRANSACTION {}").format(name))
        driver.execute(sql.SQL("ROLLBACK PREPARED {}").format(name))


def _has_queues(site: Site, group: RefreshGroup) -> bool:
    with site.session() as connection:
        return bool(_queues(connection, group))


def _queues(connection: Connection, group: RefreshGroup) -> list[queue.Queue]:
    names = {member.key for member in snapshot.members(connection, group.name)}
    return [one for one in queue.list_queues(connection) if one.snapshot in names]


def _names(site: Site, group: RefreshGroup) -> tuple[str, ...]:
    with site.session() as connection:
        return tuple(m.key for m in snapshot.members(connection, group.name))


def _switch(site: Site, group: RefreshGroup, *, synchronous: bool) -> int:
    """Change how a group propagates unless calls wait, and return how many do.

    The switch waits for writers, and blocks them, for a moment: calls captured under
    the old rule are committed before the new one holds.
    """
    for attempt in locks.patiently():
        with attempt, site.transaction() as connection:
            locks.briefly(connection)
            # First, as a refresh does: a first load makes queues, too.
            if not refresh_group.still_has(connection, group.name, group.master_id):
                raise PositionMoved(
                    f"Refresh group {group.name} was switched or dropped meanwhile.",
                    group=group.name,
                )
            queues = _queues(connection, group)
            define.lock_writers(connection, queues)
            waiting = sum(queue.undelivered_calls(connection, one) for one in queues)
            if waiting and synchronous:
                return waiting
            for one in queues:
                define.set_synchronous(connection, one, synchronous=synchronous)
            refresh_group.set_synchronous(connection, group.name, synchronous)
    return 0
