"""Has snapshots follow DDL of their master, before a refresh writes their rows."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from masters.log import registration, site_ddl
from masters.log.site_ddl import SiteDdl
from sites import faults
from sites.errors import SnaptideError
from sites.names import QualifiedName
from sites.sessions import identity
from sites.sessions.site import Site
from sites.tables.table import Table, describe
from snapshots.creating import alter, alter_columns, columns_plan
from snapshots.creating.columns_asked import Asked
from snapshots.definitions import snapshot
from snapshots.definitions.refresh_group import RefreshGroup
from snapshots.definitions.snapshot import Snapshot


class DdlWaits(Exception):
    """The master has DDL that the snapshots of a group have not followed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _There:
    """What the master has for a site to follow, and its tables as they are now."""

    #: the site's id
    site_id: uuid.UUID
    entries: Sequence[SiteDdl]
    tables: Mapping[QualifiedName, Table]


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


def followed(members: Sequence[Snapshot]) -> set[str]:
    """The DDL, by id, that all snapshots of the tables concerned have followed."""
    tables = {one.master for one in members}
    return {
        id_
        for table in tables
        for of_table in [[one for one in members if one.master == table]]
        for id_ in set.intersection(*({*one.ddl_followed} for one in of_table))
    }


def follow(
    connection: Connection,
    site: Site,
    group: RefreshGroup,
    members: Sequence[Snapshot],
) -> bool:
    """Make the columns of snapshots what DDL has made of the master's.

    Columns that were renamed or dropped come first, because what waits in the queue can
    only be pushed afterwards, and has to be before others are added. Each step is a
    transaction of its own, and after a crash the rest is done by the next refresh.

    Parameters:
        connection: holds the lock of the group's refreshes.
        members: of the group; others are left as they are.

    Returns:
        Whether there was anything to follow.

    Raises:
        the errors of `snapshots.alter_columns`; their facts name the snapshot.
    """
    there = _read(connection, site, group, members)
    waits = waiting(there.entries, members)
    for one in members:
        if one.key in waits:
            table = there.tables[one.master]
            try:
                _follow(connection, site, one, table, waits[one.key])
            except SnaptideError as error:
                error.facts.setdefault("snapshot", one.key)
                raise
    if waits:
        # There may be nothing to refresh, and so no other word of it for a day.
        with site.peer(group.master).transaction() as master:
            registration.heard(master, there.site_id, [*waits])
    return bool(waits)


def _read(
    connection: Connection, site: Site, group: RefreshGroup, members: Sequence[Snapshot]
) -> _There:
    me = identity.confirm(connection, site.name)
    with site.peer(group.master).session() as master:
        them = identity.confirm(master, group.master)
        assert them.site_id == group.master_id
        # Entries first: DDL that comes in between is followed once more.
        entries = site_ddl.read(master, me.site_id, followed(members))
        names = {entry.table for entry in entries} & {one.master for one in members}
        tables = {name: describe(master, name) for name in names}
        master.rollback()
    return _There(
        site_id=me.site_id,
        entries=[one for one in entries if one.table in tables],
        tables=tables,
    )


def _follow(
    connection: Connection,
    site: Site,
    one: Snapshot,
    table: Table,
    entries: Sequence[SiteDdl],
) -> None:
    changed = frozenset[int]().union(*(entry.columns for entry in entries))
    ids = [entry.id for entry in entries]
    moved, added = _wanted(_numbers(connection, one, table), table, changed)
    if moved.rename or moved.drop:
        alter_columns.altered(connection, site, one, moved)
        faults.point("follow_ddl.between")
        one = snapshot.read(connection, one.key)
    if added.add:
        alter_columns.altered(connection, site, one, added, followed=ids)
        return
    with site.transaction() as writing:
        followed_now = [*one.ddl_followed, *ids]
        writing.execute(alter.change(one).values(ddl_followed=followed_now))


def _numbers(connection: Connection, one: Snapshot, table: Table) -> dict[str, int]:
    """The numbers of the columns at the master, as the site knows them.

    As long as no refresh has noted any, they are those of the names.
    """
    return columns_plan.numbers(connection, one, table) or {
        name: table.column(name).number for name in one.columns if name in table.names
    }


def _wanted(
    before: Mapping[str, int], table: Table, changed: frozenset[int]
) -> tuple[Asked, Asked]:
    """What becomes of columns that a snapshot has, and what is added afterwards.

    A column that was dropped and added again with its name is the same to the site: the
    refresh compares its values.

    Parameters:
        before: the numbers at the master of the columns that the snapshot has.
        table: the master table.
        changed: the numbers of columns that were added, renamed or dropped.
    """
    there = {column.number: column.name for column in table.columns}
    mine = {name: n for name, n in before.items() if n in changed}
    renamed = {name: there[n] for name, n in mine.items() if there.get(n, name) != name}
    again = {name for n, name in there.items() if n not in before.values()}
    dropped = [n for n in mine if mine[n] not in there and n not in again]
    kept = {*before} - {*renamed, *dropped}
    new = [there[n] for n in sorted(changed & there.keys()) if there[n] in again - kept]
    return Asked(drop=tuple(dropped), rename=renamed), Asked(add=tuple(new), rename={})
