"""What a turn of a refresh begins with, and what the master must know and hold for it.

All that is compared is read at one moment of each database. A check begins alike.

A condition is kept as a text, so that PostgreSQL lets users rename or drop what it
names: a value of an enum, a function, a type. If the master cannot evaluate one any
more, the error names its snapshot.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg import errors as pg
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from deferred.batches import reconcile
from deferred.options import RefreshOptions
from deferred.parked import error_queue
from masters.log import registration
from masters.log.catalog import find_log, find_logs
from sites import names
from sites.capture import position
from sites.catalog import SCHEMA
from sites.conditions import where
from sites.conditions.where import BadCondition
from sites.errors import NotGranted
from sites.names import QualifiedName
from sites.sessions.identity import Identity
from sites.sessions.peers import Look
from sites.sessions.site import Site
from sites.tables import locks
from sites.tables.table import describe
from sites.transfer.arrow import ArrowTransportFailed
from sites.words import counted
from snapshots.definitions import refresh_group, snapshot
from snapshots.definitions.errors import UnknownSnapshot
from snapshots.definitions.refresh_group import RefreshGroup
from snapshots.definitions.refresh_notes import ASK, Steps
from snapshots.definitions.snapshot import Behind, Snapshot
from snapshots.errors import (
    ConditionBroken,
    ErrorsAtMaster,
    PositionMoved,
    WrongMethod,
)

#: No such value of a type, function, type, schema; values of other types.
_OUTDATED = {"22P02", "42883", "42704", "3F000", "42804"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One refresh of one group."""

    site: Site
    master: Site
    #: who the site is and what it remembers of its masters
    here: Look
    group: RefreshGroup
    members: tuple[Snapshot, ...]
    methods: Mapping[str, str]
    options: RefreshOptions
    #: how long it has taken so far
    steps: Steps
    #: snapshots of the group that are left behind (`snapshots.refreshing.possible`);
    #: they are not among the members
    left: tuple[tuple[Snapshot, Behind], ...] = ()

    @property
    def who(self) -> Identity:
        """The site."""
        return self.here.identity

    def tables(self) -> list[QualifiedName]:
        """The tables of the master that decide what the group holds, each once."""
        return snapshot.tables_of(self.members)


def read(
    connection: Connection,
    site: Site,
    group_name: str,
    named: list[str],
    options: RefreshOptions,
    steps: Steps,
) -> Task:
    """Read what a turn begins with.

    Raises:
        ErrorsAtMaster: only with an option.
    """
    steps.begin(ASK)
    here = reconcile.look(
        connection,
        site.name,
        also=(refresh_group.SEEN, snapshot.MEMBERS),
        its_group=group_name,
    )
    group = refresh_group.of(here.row.its_group)
    members = snapshot.of(here.row.members)
    if group is None or not members:
        raise UnknownSnapshot(f"Refresh group {group_name} has no snapshots.")
    keys = [m.key for m in members]
    if named != [group_name]:
        keys = [str(names.parse(name)) for name in named]
    task = Task(
        site=site,
        master=site.peer(group.master),
        here=here,
        group=group,
        members=members,
        methods=_methods(keys, options.method),
        options=options,
        steps=steps,
    )
    if not options.refresh_after_errors:
        _refuse_errors(task)
    return task


def _methods(keys: list[str], method: str) -> dict[str, str]:
    if set(method.lower()) - set("fc?") or len(method) > len(keys):
        raise WrongMethod(
            f"{method!r} is not a refresh method for {len(keys)} snapshots."
        )
    return dict(zip(keys, method.lower(), strict=False))


def _refuse_errors(task: Task) -> None:
    tables = [m.master for m in task.members]
    with task.master.session() as connection:
        parked = error_queue.parked(connection, task.who.site_id, tables)
    if parked:
        raise ErrorsAtMaster(
            f"The error queue of {task.master.name} holds "
            f"{counted(parked, 'transaction')} of "
            f"{task.site.name}.",
            transactions=parked,
        )


def register_new(connection: Connection, task: Task, known: Collection[str]) -> None:
    """Register the snapshots for which the master does not keep its log yet; commits.

    These are about to be loaded; or the master forgot them, and they will be
    compared completely.

    Parameters:
        connection: to the master, outside a transaction.
        known: those that were registered a moment ago.
    """
    new = [m.key for m in task.members if not (m.loaded and m.key in known)]
    if not new:
        return
    with connection.begin():
        for member in task.members:
            if member.key not in known:
                _register(connection, task, member)
        here = position.current(connection)
        registration.advance(connection, task.who.site_id, new, here)


def take_over(connection: Connection, task: Task, known: Collection[str]) -> set[str]:
    """Have the master keep its logs for snapshots since the image that filled them.

    They were loaded while the master was away, and it has kept its logs for the image.
    Commits.

    Parameters:
        connection: to the master, outside a transaction.
        known: the snapshots for which it keeps them already.

    Returns:
        Those for which it does now.
    """
    found: set[str] = set()
    for member in task.members:
        shown = task.group.shown_by(member)
        if member.key in known or not (member.image and member.loaded and shown):
            continue
        if member.asked:
            continue
        with connection.begin():
            found |= registration.take_over(
                connection,
                task.who.site_id,
                {member.key: member.master},
                member.image,
                shown,
            )
    return found


def take_back(
    connection: Connection, task: Task, known: Collection[str], master: Identity
) -> set[str]:
    """Have the master keep its logs again for snapshots that it has released; commits.

    They are kept from the moment on that the site shows. If the logs still reach back
    to it, the refresh is fast.

    Parameters:
        connection: to the master, outside a transaction.
        known: the snapshots for which it keeps them already.
        master: who it is now: a position of another incarnation means nothing.

    Returns:
        Those for which it does now.
    """
    shown = {
        member.key: seen
        for member in task.members
        if member.key not in known
        and member.loaded
        and (seen := task.group.shown_by(member))
    }
    if not shown or task.group.incarnation != master.incarnation:
        return set()
    with connection.begin():
        found = registration.take_back(connection, task.who.site_id, shown)
    return kept(found, task.members)


def registered(
    connection: Connection, site_id: uuid.UUID, members: Sequence[Snapshot]
) -> set[str]:
    """The snapshots of a site for which the master keeps all logs that they need."""
    found = registration.registered(connection, site_id, [m.key for m in members])
    return kept(found, members)


def kept(found: Mapping[str, set[str]], members: Sequence[Snapshot]) -> set[str]:
    """The same, by the snapshots that are registered and the tables that these ask."""
    return {m.key for m in members if found.get(m.key) == {*map(str, m.asked)}}


def _register(connection: Connection, task: Task, member: Snapshot) -> None:
    if find_log(connection, member.master) is None:
        return
    registration.register(
        connection,
        site_id=task.who.site_id,
        site_name=task.site.name,
        snapshot=member.key,
        table=member.master,
        parents=[*member.asked],
        updatable=member.updatable,
    )


@contextmanager
def explained(task: Task) -> Iterator[None]:
    """Look at the conditions of a refresh if the block fails as a broken one does.

    Raises:
        ConditionBroken: the master refuses one of them.
    """
    try:
        yield
    except (DBAPIError, psycopg.Error, ArrowTransportFailed) as error:
        if getattr(getattr(error, "orig", error), "sqlstate", None) in _OUTDATED:
            _refuse_broken(task)
        raise


def _refuse_broken(task: Task) -> None:
    with task.master.session() as master:
        for one in task.members:
            if one.condition is None:
                continue
            try:
                where.canonical(master, one.master, one.condition)
            except BadCondition as refused:
                raise ConditionBroken(
                    f"Snapshot {one.key}: {refused.message}", snapshot=one.key
                ) from None


def hold_master(
    master: Connection,
    members: Sequence[Snapshot],
    what: str,
    logs: Collection[str] | None = None,
) -> None:
    """Begin one moment of the master, after locking all that is read in it.

    A purge that empties a partition of a log, a TRUNCATE and DDL that rewrites a table
    remove rows from older moments too: without the locks, a table that was found there
    might be read as empty.

    Parameters:
        members: the snapshots that are compared.
        what: refresh or check, for the message.
        logs: the logs that their tables had a moment ago, if the caller has asked.

    Raises:
        UnknownTable: a master table is gone.
        PositionMoved: a snapshot log is gone.
    """
    tables = snapshot.tables_of(members)
    if logs is None:
        logs = find_logs(master, tables)
        # Not rolled back: a rollback would make the server forget prepared plans.
        master.commit()
    gone = f"A snapshot log of the group was dropped during the {what}."
    hold(master, tables, [QualifiedName(SCHEMA, log) for log in logs], gone=gone)


def hold(
    connection: Connection,
    tables: Sequence[QualifiedName],
    logs: Sequence[QualifiedName] = (),
    *,
    gone: str,
) -> None:
    """Lock all that is read, and so begin one moment of a database.

    Parameters:
        connection: outside a transaction; REPEATABLE READ from now on.
        logs: the logs of the tables, if they are read.
        gone: the message if a lock failed although the tables are there.

    Raises:
        UnknownTable: one of the tables is gone.
        PositionMoved: a log is gone, or a table was gone.
        NotGranted: our user may not read one of them.
    """
    connection.execution_options(isolation_level="REPEATABLE READ")
    try:
        # In the order in which DDL of a log locks them.
        locks.against_ddl(connection, *sorted(tables), *sorted(logs))
    except pg.InsufficientPrivilege as error:
        raise NotGranted(
            f"{error.diag.message_primary}: it was never granted to this site, or is "
            "granted no more."
        ) from error
    except pg.UndefinedTable as error:
        connection.rollback()
        for table in tables:
            describe(connection, table)
        raise PositionMoved(gone) from error
