"""What a turn of a refresh begins with, and what the master must know and hold for it.

All that is compared is read at one moment of each database. A check begins alike.

A condition is kept as a text, so that PostgreSQL lets users rename or drop what it
names: a value of an enum, a function, a type. If the master cannot evaluate one any
more, the error names its snapshot; if it took a right away, the table.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psycopg
from psycopg import errors as pg
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from deferred import sqlstate
from deferred.batches import reconcile
from deferred.options import RefreshOptions
from deferred.parked import error_queue
from masters.log import registration
from masters.log.catalog import find_logs
from sites import names
from sites.catalog import SCHEMA
from sites.conditions import where
from sites.conditions.where import BadCondition
from sites.errors import NotGranted, SnaptideError
from sites.names import QualifiedName
from sites.sessions import granted
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
from snapshots.definitions.refresh_notes import ASK, START, Steps
from snapshots.definitions.snapshot import Behind, Snapshot
from snapshots.differences import difference
from snapshots.differences.window import LOAD
from snapshots.errors import (
    ConditionBroken,
    ErrorsAtMaster,
    LensFails,
    PositionMoved,
    WrongMethod,
)
from snapshots.spark.errors import SparkError

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

    def from_images(self) -> dict[str, str]:
        """What those snapshots show that no refresh has compared since an image."""
        filled = [m for m in self.members if m.image and m.last_method == LOAD]
        shown = {one.key: self.group.shown_by(one) for one in filled}
        return {key: position for key, position in shown.items() if position}


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


def registered(
    connection: Connection, site_id: uuid.UUID, members: Sequence[Snapshot]
) -> set[str]:
    """The snapshots of a site for which the master keeps all logs that they need."""
    found = registration.registered(connection, site_id, [m.key for m in members])
    return kept(found, members)


def kept(found: Mapping[str, set[str]], members: Sequence[Snapshot]) -> set[str]:
    """The same, by the snapshots that are registered and the tables that these ask."""
    return {m.key for m in members if found.get(m.key) == {*map(str, m.asked)}}


def start_spark(master: Connection, task: Task) -> None:
    """Start Spark before the moment that is compared, if it is needed and cold.

    The start takes seconds. If the moment were held meanwhile, the master could not
    clean up old rows, and no session could alter the tables.
    """
    if any(member.loaded for member in task.members) and not difference.is_warm():
        task.steps.begin(START)
        master.rollback()
        difference.session()
        hold_master(master, task.members, "refresh")


@contextmanager
def explained(master: Site, members: Sequence[Snapshot], what: str) -> Iterator[None]:
    """Find out why the block failed, if that may be because of what the master forbids.

    Parameters:
        members: the snapshots whose rows the block reads.
        what: refresh or check, for the message.

    Raises:
        ConditionBroken: the master refuses the condition of a snapshot.
        NotGranted: the grant was revoked while the block ran.
    """
    try:
        yield
    except _WITH_ITS_MESSAGE as error:
        state = _state(error)
        if state in _OUTDATED:
            _refuse_broken(master, members)
        if state == sqlstate.NO_RIGHT:
            _refuse_revoked(master, members, what, error)
        raise


#: Errors with a refusal of the database. Those of Spark and of lenses have no state.
_WITH_ITS_MESSAGE = (
    DBAPIError,
    psycopg.Error,
    ArrowTransportFailed,
    SparkError,
    LensFails,
)


def _state(error: Exception) -> str | None:
    """The state of an error; one that has none may be about a right."""
    if isinstance(error, DBAPIError):
        return sqlstate.of(error)
    return getattr(error, "sqlstate", sqlstate.NO_RIGHT)


def _refuse_broken(master: Site, members: Sequence[Snapshot]) -> None:
    with master.session() as connection:
        for one in members:
            if one.condition is None:
                continue
            try:
                where.canonical(connection, one.master, one.condition)
            except BadCondition as refused:
                raise ConditionBroken(
                    f"Snapshot {one.key}: {refused.message}", snapshot=one.key
                ) from None


def _refuse_revoked(
    master: Site, members: Sequence[Snapshot], what: str, because: Exception
) -> None:
    found: list[QualifiedName] = []
    with suppress(SnaptideError, SQLAlchemyError), master.session() as connection:
        found = granted.unreadable(connection, snapshot.tables_of(members))
    if found:
        names = ", ".join(map(str, found))
        raise NotGranted(
            f"The grant was revoked during the {what}: {master.name} does not let this "
            f"site read {names} any more.",
            tables=[*map(str, found)],
        ) from because


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
    except (pg.UndefinedTable, pg.InvalidSchemaName) as error:
        connection.rollback()
        for table in tables:
            describe(connection, table)
        raise PositionMoved(gone) from error
