"""Switches snapshots to another master of their replication group.

Their changes go there too. Transactions that the former master has not taken go to the
new one. Those that it has taken may be there already, may still come, or may be lost
with the former master: they are sent again, and each master takes a transaction once
(docs/explanation/switching.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Connection, select
from tenacity import stop_after_attempt

from deferred.batches import marker
from deferred.batches.marker import Marker
from deferred.batches.pusher import only_pusher, waiting_for_pushes
from deferred.errors import BothDestinations, PushRunning, TargetColumnsMoved
from deferred.parked import error_queue
from deferred.pushing.push import destinations
from deferred.queues import refresh_coverage
from groups.differences import differences
from groups.pushes import push, push_everywhere
from groups.redirect import Redirected
from groups.switch_commit import Start, commit, start
from groups.switch_given import Switch, look, refuse_altered, refuse_regrouped
from masters.log import registration
from sites import Site, faults, retry
from sites.errors import SiteUnreachable, SnaptideError
from sites.sessions import identity
from sites.words import counted
from snapshots.definitions import refresh_group, snapshot
from snapshots.errors import PositionMoved
from snapshots.refreshing import former
from snapshots.refreshing.refresh import refresh

#: How often the former master is looked at before its pushes count as endless.
ATTEMPTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchReport:
    """Snapshots that have another master."""

    group: str
    master: str
    former_master: str
    snapshots: tuple[str, ...]
    #: transactions that wait for the new master
    transactions: int
    #: transactions that it has, or gets from the former one
    settled: int
    #: the method of the next refresh, fast or complete; and why it is complete
    next_refresh: str
    why: str | None
    #: False if the snapshots are still to be unregistered at the former master
    unregistered: bool


def switch_master(site: Site, what: str, *, to: str) -> SwitchReport:
    """Have a refresh group refreshed from another master of its replication group.

    (Oracle: SWITCH_SNAPSHOT_MASTER.) The former master need not be there. Changes that
    wait go to the new one, and those that the former one took are not applied twice.
    No rows are copied again: the next refresh is fast if both masters could be brought
    to the same state, else it compares all keys. If the command is interrupted, either
    nothing or everything has changed: run it again.

    Parameters:
        site: where the snapshots are.
        what: a snapshot, or its refresh group; all its snapshots are switched.
        to: the new master.

    Raises:
        UnknownSnapshot, UnknownSite.
        SiteUnreachable: the site or the new master does not answer.
        CannotSwitch: the new master is not suitable, or changes are synchronous.
        NoSnapshotLog, SnapshotRefused: its table is not suitable.
        CallsQueued, BothDestinations: calls that wait cannot be sent there.
        TargetColumnsMoved: they were made for columns that are others by now.
        PushRunning, RefreshRunning: a push or a refresh is running.
        GroupChanging: another command is changing the replication group.
    """
    for attempt in retry.on(PositionMoved, stop=stop_after_attempt(ATTEMPTS)):
        with attempt:
            given = look(site, what, to)
            with former.defer_unregister(site, to), _registered(given) as since:
                done, why = _switch_patiently(given, since)
    faults.point("switch.after_commit")
    away = former.unregister_at_former(site, pause=timedelta())
    return SwitchReport(
        group=given.group.name,
        master=to,
        former_master=given.group.master,
        snapshots=given.keys,
        transactions=done.transactions,
        settled=done.settled,
        next_refresh="fast" if why is None else "complete",
        why=why,
        unregistered=given.group.master not in away,
    )


@contextmanager
def _registered(given: Switch) -> Iterator[Start]:
    """Have the new master keep its log from a position on; unregister on failure."""
    site_id = given.me.site_id
    with given.new.transaction() as connection:
        registration.keep_logs(connection, snapshot.tables_of(given.members))
        for one in given.members:
            registration.register(
                connection,
                site_id=site_id,
                site_name=given.site.name,
                snapshot=one.key,
                table=one.master,
                parents=[*one.asked],
                updatable=one.updatable,
            )
        since = start(given, connection)
        registration.advance(connection, site_id, given.keys, since.position)
    faults.point("switch.after_register")
    try:
        yield since
    except BaseException:
        with suppress(SiteUnreachable), given.new.transaction() as connection:
            registration.unregister(connection, site_id, given.keys)
        raise


def _switch_patiently(given: Switch, since: Start) -> tuple[Redirected, str | None]:
    """Switch once the masters are level, or when it is clear that they will not be.

    Returns:
        The outcome for the queue, and why the next refresh is complete, if it is.
    """
    for left in reversed(range(ATTEMPTS)):
        why = _level(given)
        faults.point("switch.after_level")
        with _at_rest(given) as alone:
            with given.site.transaction() as connection:
                refuse_altered(given, connection)
            refuse_regrouped(given)
            answered = None if why else _answered(given)
            if why is None and answered is None and left:
                continue  # a push came in between
            if why is None and answered is None:
                why = f"other pushes to {given.group.master} keep arriving"
            try:
                level = since if why is None else None
                return commit(given, alone, level, answered), why
            except BothDestinations:
                if why is not None or not left:
                    raise
                # Such a transaction was made between the pushes to the two of them.
    raise AssertionError("unreachable")


def _level(given: Switch) -> str | None:
    """Bring the snapshots and the new master level: each gets the other's changes.

    Returns:
        Why they are not level; None if they are.

    Raises:
        TargetColumnsMoved: changes were made for columns that are others by now; the
            new master would not know.
    """
    before = given.group.master
    if given.group.position is None:
        return "its snapshots have never been filled"
    if before not in given.replicated.names:
        return f"{before} is no longer a master of group {given.replicated.name}"
    try:
        with given.site.peer(before).session() as connection:
            identity.confirm(connection, before)
        push_everywhere(given.site, given.replicated.names)
        refresh(given.site, given.group.name, strict=True)
        _bring_rest(given)
        push_everywhere(given.site, given.replicated.names)
        return _parked(given) or _listed(given)
    except TargetColumnsMoved:
        raise
    except SnaptideError as error:
        return error.message


def _bring_rest(given: Switch) -> None:
    """Push other snapshots' part of transactions that the former master has answered.

    If that fails, and there is such a part, the switch is refused.
    """
    if given.new.name in destinations(given.site):
        with suppress(SnaptideError):
            push(given.site, given.new.name)


def _parked(given: Switch) -> str | None:
    """Why the two masters may have different rows for good; None if they cannot.

    A transaction that is parked at a master between them is not sent on.
    """
    for name in given.replicated.names:
        with given.site.peer(name).session() as connection:
            for table in sorted({one.master for one in given.members}):
                count = error_queue.of_table(connection, table)
                if count:
                    return (
                        f"{counted(count, 'transaction', 'are')} parked at {name} "
                        f"that may change {table}"
                    )
    return None


def _listed(given: Switch) -> str | None:
    """Which rows some master has listed as different, and they still are."""
    tables = {str(one.master) for one in given.members}
    for name in given.replicated.names:
        for one in differences(given.site.peer(name), given.replicated.name):
            if one.table in tables:
                return f"rows of {one.table} may differ at {name}: {one.why}"
    return None


@contextmanager
def _at_rest(given: Switch) -> Iterator[Connection]:
    """Keep refreshes of the group, and pushes to either master, away.

    Yields the session that keeps pushes away. What it commits holds: if it was lost in
    between, a push may have come.
    """
    with ExitStack() as held:
        held.enter_context(refresh_group.exclusively(given.site, given.group.name))
        connection = held.enter_context(given.site.session())
        for name in (given.group.master, given.new.name):
            for attempt in waiting_for_pushes():
                with attempt:
                    if not held.enter_context(only_pusher(connection, name)):
                        raise PushRunning(
                            f"A push to {name} is running.", destination=name
                        )
        yield connection


def _answered(given: Switch) -> Marker | None:
    """How far the former master has answered, if the last refresh has seen that."""
    with given.site.session() as site:
        with given.site.peer(given.group.master).session() as master:
            at = marker.read(master, given.me.site_id)
        keys = [one.snapshot for one in given.sending.queues]
        covered = refresh_coverage.covers(keys, at.batch_no, at.order_no)
        seen = site.scalar(select(covered))
    return at if seen else None
