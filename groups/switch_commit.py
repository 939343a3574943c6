"""The one transaction at the site that gives a refresh group another master."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import sqlalchemy as sa
from psycopg.errors import SerializationFailure
from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from deferred.batches import marker, reconcile
from deferred.batches.marker import Marker
from deferred.parked import differing
from deferred.queues import define, target_columns
from groups import queued, redirect
from groups.queued import Numbers
from groups.redirect import Redirected
from groups.relay import duplicate_watch
from groups.relay.duplicate_watch import DuplicateWatch
from groups.switch_given import Switch, refuse_altered
from masters.log import site_ddl
from sites import faults
from sites.capture import position
from sites.conditions import ranges
from sites.sessions.identity import Identity
from sites.tables import locks
from sites.tables.table import describe
from snapshots.creating import base_table
from snapshots.definitions import refresh_group, rewrites
from snapshots.definitions.snapshot import Snapshot
from snapshots.errors import PositionMoved
from snapshots.refreshing import former


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The position from which the new master keeps its logs for the snapshots."""

    position: str
    #: by snapshot, the state of its table then or shortly before
    seen: Mapping[str, rewrites.Seen]


def start(given: Switch, there: Connection) -> Start:
    """Look at the tables of the new master, and then take its position.

    DDL that comes between the two makes the next refresh compare all rows, as does DDL
    that comes later.
    """
    seen = {one.key: _seen(there, one) for one in given.members}
    return Start(position=position.current(there), seen=seen)


def commit(
    given: Switch, alone: Connection, since: Start | None, answered: Marker | None
) -> Redirected:
    """Have the snapshots refreshed from the new master, and their changes go there.

    The caller keeps pushes to both masters, and refreshes of the group, away.

    Parameters:
        alone: the session at the site that keeps pushes away.
        since: the state of the new master with which the snapshots are level, if so.
        answered: how far the former master has answered, if it has sent all that on.

    Raises:
        CallsQueued, BothDestinations: calls that wait cannot be sent there.
        PositionMoved: snapshots or queues of the site are others by now.
    """
    with given.site.session() as origin, given.new.session() as there:
        looks = reconcile.looks(origin, there, given.me, given.new.name)
        them = reconcile.confirm(origin, there, *looks).master
        watch = _watch(given, origin, there, answered)
        origin.rollback()
        at = marker.read(there, given.me.site_id)
        for attempt in locks.patiently():
            with attempt, _undisturbed(given), _one_moment(given, alone) as connection:
                # Who loses the lock of refreshes may be overtaken by one.
                refuse_altered(given, connection)
                done = _redirect(given, connection, there, them, at, answered, watch)
                _move(given, connection, them, since)
                faults.point("switch.before_commit")
    return done


def _watch(
    given: Switch, origin: Connection, there: Connection, answered: Marker | None
) -> DuplicateWatch | None:
    """Have the new master watch for calls that the former one may have sent on."""
    if not given.sending.queues:
        return None
    redirect.refuse_procedures(origin, given.group.master)
    numbers = queued.numbers(origin, given.sending.queues)
    if answered is not None or numbers is None:
        origin.rollback()
        return None
    redirect.refuse_shared(origin, given.sending.queues, given.new.name)
    watch = _duplicate_watch(given, origin, numbers)
    _list_called(given, origin, there)
    origin.rollback()
    duplicate_watch.watch_for(there, [watch])
    faults.point("switch.after_watch")
    return watch


def _list_called(given: Switch, origin: Connection, there: Connection) -> None:
    """List all tables as different if the former master has run procedures.

    Such calls are not sent again, so what they changed is lost with it. If it comes
    back, it leaves out what it sends on of a transaction that has come from the site.
    """
    former = given.group.master
    if not queued.has_called(origin, former):
        return
    why = (
        f"{given.site.name} called procedures at {former}, which did not answer when"
        f" {given.group.name} was switched: their changes may be missing here."
    )
    with there.begin():
        differing.note_all(there, why)


def _duplicate_watch(
    given: Switch, origin: Connection, numbers: Numbers
) -> DuplicateWatch:
    elsewhere = queued.went_elsewhere(
        origin, given.sending.queues, given.sending.others
    )
    return DuplicateWatch(
        group_id=given.replicated.id,
        origin=given.site.name,
        first_no=numbers.first,
        end_no=numbers.end,
        alone=given.sending.alone,
        whole=given.sending.whole and not elsewhere,
    )


@contextmanager
def _undisturbed(given: Switch) -> Iterator[None]:
    """Begin anew if the group was written to since the moment that the switch sees.

    Raises:
        PositionMoved: it was, as by the creation of a snapshot.
    """
    try:
        yield
    except OperationalError as error:
        if not isinstance(error.orig, SerializationFailure):
            raise
        raise PositionMoved(
            f"Group {given.group.name} was altered during the switch.",
            group=given.group.name,
        ) from error


@contextmanager
def _one_moment(given: Switch, alone: Connection) -> Iterator[Connection]:
    """One moment of the site, in which no session writes to the snapshots."""
    connection = alone.execution_options(isolation_level="REPEATABLE READ")
    with define.in_turn(connection), connection.begin():
        # Before anything else: the moment is that of the first query.
        connection.execute(sa.text("SET LOCAL lock_timeout = '500ms'"))
        for one in given.sending.queues:
            locks.against_writers(connection, one.base)
        yield connection


def _redirect(
    given: Switch,
    connection: Connection,
    there: Connection,
    them: Identity,
    at: Marker,
    answered: Marker | None,
    watch: DuplicateWatch | None,
) -> Redirected:
    """Have queued calls go to the new master."""
    if not given.sending.queues:
        return Redirected(transactions=0, settled=0)
    if answered is not None:
        settled = redirect.answered_by(given.group.master, answered)
    elif watch is not None:
        taken = duplicate_watch.taken(watch)
        settled = redirect.known_there(connection, there, taken, given.sending.queues)
    else:
        settled = sa.false()
    done = redirect.redirect(connection, given.sending.queues, them, at, settled)
    for queue in given.sending.queues:
        target_columns.settle(connection, queue, describe(there, queue.target))
    for one in given.members:
        base_table.make_log_view(connection, one)
    if watch is not None:
        duplicate_watch.note(connection, watch)
    return done


def _move(
    given: Switch, connection: Connection, them: Identity, since: Start | None
) -> None:
    """Have the group show the new master; if not level, from before any log begins."""
    loaded = given.group.position is not None
    unknown = dict.fromkeys(given.keys, rewrites.UNKNOWN)
    begins = since.position if since else position.START
    refresh_group.move(
        connection,
        given.group.name,
        given.new.name,
        them,
        begins if loaded else None,
        since.seen if since else unknown,
    )
    former.remember(connection, given.group.master, given.group.master_id, given.keys)
    former.forget(connection, them.site_id, given.keys)


def _seen(there: Connection, one: Snapshot) -> rewrites.Seen:
    """The new master's table as it is: if it changes, a refresh compares all rows.

    What DDL it has had for its sites is done with: the snapshot has followed that of
    the former master.
    """
    leaves = ranges.leaves(there, one.master)
    seen = rewrites.seen(
        one,
        {column.name: column.state for column in describe(there, one.master).columns},
        {oid: leaf.file for oid, leaf in leaves.items()},
    )
    known = site_ddl.known(there, one.master)
    return {**seen, "ddl_followed": [*dict.fromkeys([*one.ddl_followed, *known])]}
