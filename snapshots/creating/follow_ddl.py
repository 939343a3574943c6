"""Has snapshots follow DDL of their master, before a refresh writes their rows."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from psycopg import errors as pg
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from deferred import sqlstate
from deferred.queues.queue import find_queue
from masters.log import registration, site_ddl
from masters.log.site_ddl import SiteDdl
from masters.numbers import columns as numbered_columns
from sites import faults
from sites.errors import SnaptideError
from sites.names import QualifiedName
from sites.sessions import granted, identity
from sites.sessions.site import Site
from sites.tables.table import Table, describe
from snapshots.creating import alter_columns, columns_asked
from snapshots.creating.columns_asked import Asked
from snapshots.creating.columns_widened import why_not
from snapshots.definitions import rewrites, snapshot
from snapshots.definitions.refresh_group import RefreshGroup
from snapshots.definitions.snapshot import Snapshot


class DdlWaits(Exception):
    """The master has DDL that the snapshots of a group have not followed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ToDo:
    """What becomes of the columns of a snapshot."""

    key: str
    #: those that it has, which are renamed, dropped or widened
    moved: Asked
    #: those that are added afterwards
    added: Asked
    #: the DDL that it has followed then
    ids: Sequence[str]


def waiting(
    entries: Sequence[SiteDdl], members: Sequence[Snapshot]
) -> dict[str, list[SiteDdl]]:
    """The DDL that each of some snapshots is to follow; without those that have."""
    found = {
        one.key: [
            entry
            for entry in entries
            if entry.table == one.master and entry.id not in one.ddl_followed
        ]
        for one in members
    }
    return {key: its for key, its in found.items() if its}


def followed(members: Sequence[Snapshot]) -> set[tuple[str, QualifiedName]]:
    """The DDL, by id and table, that all snapshots of the table have followed."""
    return {
        (id_, one.master)
        for one in members
        for id_ in one.ddl_followed
        if all(id_ in x.ddl_followed for x in members if x.master == one.master)
    }


def follow(
    connection: Connection,
    site: Site,
    group: RefreshGroup,
    members: Sequence[Snapshot],
) -> bool:
    """Make the columns of snapshots what DDL has made of the master's.

    Columns that were renamed, dropped or widened come first, for all snapshots: what
    waits in the queues can only be pushed afterwards, and has to be before others are
    added.
    Each step is a transaction of its own, and after a crash the rest is done by the
    next refresh. If a snapshot cannot follow, the others do.

    Parameters:
        connection: holds the lock of the group's refreshes.
        members: of the group; others are left as they are.

    Returns:
        Whether there was anything to follow.

    Raises:
        the errors of `snapshots.alter_columns`, the first one; their facts name the
            snapshot.
    """
    site_id, todo = _read(connection, site, group, members)
    errors: dict[str, SnaptideError] = {}
    for step in (_move, _add):
        for one in todo:
            if one.key not in errors:
                try:
                    step(connection, site, one)
                except SnaptideError as error:
                    errors[one.key] = error
                except (DBAPIError, pg.Error) as error:
                    errors[one.key] = _refusal(connection, one.key, error)
        faults.point("follow_ddl.between")
    if done := [one.key for one in todo if one.key not in errors]:
        # There may be nothing to refresh, and so no other word of it for a day.
        with site.peer(group.master).transaction() as master:
            registration.heard(master, site_id, done)
    for key, refused_by in errors.items():
        refused_by.facts.setdefault("snapshot", key)
        raise refused_by
    return bool(todo)


def _refusal(
    connection: Connection, key: str, error: DBAPIError | pg.Error
) -> SnaptideError:
    """What PostgreSQL says at the site, as a refusal of one snapshot.

    Raises:
        DBAPIError: the connection broke.
    """
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        raise error
    one = snapshot.read(connection, key)
    return columns_asked.refused(one, sqlstate.message(error).rstrip("."))


def _read(
    connection: Connection, site: Site, group: RefreshGroup, members: Sequence[Snapshot]
) -> tuple[uuid.UUID, list[_ToDo]]:
    """The site's id, and what its snapshots are to do."""
    me = identity.confirm(connection, site.name)
    with site.peer(group.master).session() as master:
        them = identity.confirm(master, group.master, partner=True)
        assert them.site_id == group.master_id
        # Entries first: DDL that comes in between is followed once more.
        entries = site_ddl.read(master, me.site_id, followed(members))
        waits = waiting(entries, members)
        todo = []
        for one in (member for member in members if member.key in waits):
            table = describe(master, one.master)
            hidden = granted.hidden_columns(master, table.oid)
            todo.append(_todo(connection, one, table, waits[one.key], hidden))
        master.rollback()
    return me.site_id, todo


def _move(connection: Connection, site: Site, todo: _ToDo) -> None:
    """Rename, drop and widen columns."""
    if todo.moved.rename or todo.moved.drop or todo.moved.widen:
        one = snapshot.read(connection, todo.key)
        alter_columns.altered(connection, site, one, todo.moved)


def _add(connection: Connection, site: Site, todo: _ToDo) -> None:
    """Add columns, and note that all is done."""
    one = snapshot.read(connection, todo.key)
    if todo.added.add:
        alter_columns.altered(connection, site, one, todo.added, followed=todo.ids)
        return
    with site.transaction() as writing:
        done = [*one.ddl_followed, *todo.ids]
        writing.execute(snapshot.change(one).values(ddl_followed=done))


def _todo(
    connection: Connection,
    one: Snapshot,
    table: Table,
    entries: Sequence[SiteDdl],
    hidden: Collection[str],
) -> _ToDo:
    """What becomes of the columns of a snapshot.

    A column that was dropped and added again with its name is the same to the site: the
    refresh compares its values. One that the snapshot lacks on purpose does not come
    because it was renamed. One that is gone by DDL that sites do not follow stays: a
    lens may make it, or the refresh says that it is gone.

    Parameters:
        table: the master table.
        hidden: columns of it that the site may not read: it goes on without them.
    """
    changed = frozenset[int]().union(*(entry.columns for entry in entries))
    new = frozenset[int]().union(*(entry.added for entry in entries))
    gone = frozenset[int]().union(*(entry.dropped for entry in entries))
    before = rewrites.numbers_shown(connection, one, table)
    there = {column.number: column.name for column in table.columns}
    mine = {name: n for name, n in before.items() if n in changed}
    renamed = {name: there[n] for name, n in mine.items() if there.get(n, name) != name}
    again = {name for n, name in there.items() if n not in before.values()}
    dropped = [n for n in mine if mine[n] in gone - there.keys() and n not in again]
    kept = {*before} - {*renamed, *dropped}
    wanted = again - kept - {*hidden}
    add = [there[n] for n in sorted(new & there.keys()) if there[n] in wanted]
    return _ToDo(
        key=one.key,
        moved=Asked(
            drop=tuple(dropped),
            rename=renamed,
            widen=tuple(
                there[mine[name]]
                for name in _wider(connection, one, table, mine)
                if name not in dropped
            ),
        ),
        added=Asked(add=tuple(add), rename={}),
        ids=[entry.id for entry in entries],
    )


def _wider(
    connection: Connection, one: Snapshot, table: Table, mine: Mapping[str, int]
) -> list[str]:
    """The columns that can get a wider type which the master has.

    Others keep theirs, and hold back rows whose values do not fit.

    Parameters:
        table: the master table.
        mine: the numbers that columns of the snapshot have there.
    """
    base, queue = describe(connection, one.base), find_queue(connection, one.key)
    drawn = {x.column_name for x in numbered_columns.all_of(connection, None, one.key)}
    there = {column.number: column for column in table.columns}
    pairs = [(base.column(x), there[n]) for x, n in mine.items() if n in there]
    return [
        here.name
        for here, column in pairs
        if here.name not in drawn
        and why_not(connection, one, base, here, column, queue) is None
    ]
