"""Creates and drops groups, and adds and removes their tables and masters."""

from __future__ import annotations

import uuid
from dataclasses import fields
from datetime import UTC, datetime

from sqlalchemy import Connection

from groups import group as groups
from groups import shape
from groups.arrange import arrange, leave
from groups.change import (
    Connections,
    administered,
    change,
    compared,
    lock_alike,
    lock_writers,
    refuse_busy,
    refuse_parked,
)
from groups.errors import CannotReplicate, GroupExists, MasterExists, NoSuchMaster
from groups.group import Group, Master, Status, TableAdded, TargetType, changed
from groups.relay import ledger
from groups.unfinished import finish
from sites import QualifiedName, Site, names
from sites.sessions import identity
from sites.tables import locks
from sites.tables.users_triggers import firing_names

#: The work of who creates a group of some name.
CREATION = "snaptide.group.create"


def create_group(home: Site, name: str) -> Group:
    """Create a replication group with one master (Oracle: CREATE_MASTER_REPGROUP).

    Parameters:
        home: the master definition site, where the group is administered.

    Raises:
        GroupExists: the site has a group of that name.
    """
    group = Group(
        name=name,
        id=uuid.uuid4(),
        definition_site=home.name,
        version=1,
        status=Status.NORMAL,
        status_by=None,
        status_since=datetime.now(UTC),
        masters=(Master(name=home.name),),
        tables=(),
        paths=(),
    )
    finish(home)
    with identity.confirmed(home) as connection:
        locks.wait_turn(connection, CREATION, name)
        if groups.find(connection, name) is not None:
            raise GroupExists(f"{home.name} already has a group {name}.", group=name)
        arrange(connection, home.name, group)
    return group


def add_table(
    home: Site, name: str, table: str, *, same_rows: bool = False
) -> TableAdded:
    """Add a table that all masters have (Oracle: CREATE_MASTER_REPOBJECT).

    From the commit on, changes go to the other masters. Users who write to the table
    wait for a moment.

    Parameters:
        same_rows: the masters are known to have the same rows; they are not compared.

    Raises:
        NoSuchGroup, NotDefinitionSite, UnknownTable.
        CannotReplicate, TablesDiffer: nothing was changed.
    """
    qualified = names.parse(table)
    triggers: dict[str, tuple[str, ...]] = {}

    def with_table(group: Group, connections: Connections) -> Group:
        for master, connection in connections.items():
            triggers[master] = firing_names(connection, qualified)
        if qualified in group.tables:
            return group
        alike = compared(group, connections)

        def refuse_unlike(one: QualifiedName) -> None:
            for master, connection in connections.items():
                refuse_other_group(master, groups.group_of(connection, one), table)
            shape.refuse_different(alike, one, home.name)
            for master in set(connections) - set(alike):
                shape.refuse_missing(connections, one, home.name, master)

        lock_alike(connections, [qualified], refuse_unlike)
        if not same_rows:
            shape.refuse_other_rows(alike, qualified)
        return changed(group, tables=(*group.tables, qualified))

    group = change(home, name, with_table)
    values = {field.name: getattr(group, field.name) for field in fields(group)}
    return TableAdded(**values, triggers=triggers)


def remove_table(home: Site, name: str, table: str, *, force: bool = False) -> Group:
    """Take a table out of a group; it stays at all masters as it is.

    Parameters:
        force: remove it even if changes of it are on their way, which are then lost.

    Raises:
        NoSuchGroup, NotDefinitionSite.
        GroupBusy: changes are on their way, and `force` is not set.
    """
    qualified = names.parse(table)

    def without_table(group: Group, connections: Connections) -> Group:
        if qualified not in group.tables:
            raise CannotReplicate(f"{table} is not in group {name}.", table=table)
        lock_writers(connections, [qualified])
        if not force:
            refuse_busy(connections, [qualified])
        left = tuple(one for one in group.tables if one != qualified)
        return changed(group, tables=left)

    return change(home, name, without_table, here_first=True)


def add_master(
    home: Site,
    name: str,
    master: str,
    *,
    via: str | None = None,
    target_type: TargetType = TargetType.FULL_PEER,
    same_rows: bool = False,
) -> Group:
    """Add a master that has the group's tables, with the same rows already.

    From the commit on, its changes go to the others, and theirs come to it.

    Parameters:
        master: the site.
        via: the one master that it exchanges changes with; all of them by default.
        target_type: read-only masters take changes and make none. A protected one
            refuses its users; an unprotected one takes all changes without a look for
            conflicts, into any table that has the columns, whatever its rows.
        same_rows: it is known to have the same rows; they are not compared.

    Raises:
        NoSuchGroup, NotDefinitionSite, MasterExists, NoSuchMaster, UnknownTable.
        CannotReplicate, TablesDiffer: nothing was changed.
    """

    def with_master(group: Group, connections: Connections) -> Group:
        there = connections[master]
        after = groups.with_master(
            group, Master(name=master, target_type=target_type), via
        )
        forget_former(there, master, group)
        any_rows = target_type is TargetType.UNPROTECTED_READ_ONLY
        both = {name: connections[name] for name in (home.name, master)}

        def refuse_unlike(table: QualifiedName) -> None:
            refuse_other_group(master, groups.group_of(there, table), str(table))
            if any_rows:
                shape.refuse_missing(connections, table, home.name, master)
            else:
                shape.refuse_different(both, table, home.name)

        lock_alike(connections, group.tables, refuse_unlike)
        if not (any_rows or same_rows):
            # Changes on their way would make masters differ that are equal.
            refuse_busy(connections, group.tables)
            for table in group.tables:
                shape.refuse_other_rows(compared(group, connections), table)
        ledger.take_over(connections[home.name], there)
        return after

    before = administered(home, name)
    if master in before.names:
        stands = "a master of" if before.master(master).joined else "joining"
        raise MasterExists(f"{master} is already {stands} {name}.", master=master)
    return change(home, name, with_master, joining=[master])


def remove_master(home: Site, name: str, master: str, *, force: bool = False) -> Group:
    """Take a master out of a group; its tables stay as they are.

    Changes that it sent on to others come to them directly from then on.

    Parameters:
        force: remove it even if changes from or to it are on their way, which are
            then lost.

    Raises:
        NoSuchGroup, NotDefinitionSite, NoSuchMaster.
        CannotReplicate: it is the master definition site.
        GroupBusy: changes are on their way, and `force` is not set.
    """
    before = administered(home, name)
    if master not in before.names:
        raise NoSuchMaster(f"{master} is not a master of {name}.", master=master)
    groups.refuse_definition_site(before, master)

    def without_master(group: Group, connections: Connections) -> Group:
        lock_writers(connections, group.tables)
        # Changes that it sends on, or that others send on for it, may be anywhere.
        travels = groups.is_sent_on(group, master) or any(
            path.local == master != path.source for path in group.paths
        )
        # Calls that wait for a master which never got any can be dropped.
        if not force and (travels or group.master(master).joined):
            of = None if travels else master
            refuse_busy(connections, group.tables, of)
            refuse_parked(connections, group.tables, of)
        return groups.without_master(group, master)

    return change(home, name, without_master, leaving=[master], here_first=True)


def drop_group(home: Site, name: str, *, force: bool = False) -> None:
    """Drop a group at all its masters; the tables stay as they are.

    Parameters:
        force: drop it even if changes are on their way, which are then lost.

    Raises:
        NoSuchGroup, NotDefinitionSite.
        GroupBusy: changes are on their way, and `force` is not set.
    """

    def nothing(group: Group, connections: Connections) -> None:
        lock_writers(connections, group.tables)
        if not force:
            refuse_busy(connections, group.tables)
            refuse_parked(connections, group.tables)

    leaving = administered(home, name).names
    change(home, name, nothing, leaving=leaving, here_first=True)


def forget_former(there: Connection, master: str, group: Group) -> None:
    """Have a new master forget that it was in the group at an earlier time.

    Until the commit, nobody gives it another group of that name.

    Raises:
        GroupExists: it has another group of that name.
    """
    locks.wait_turn(there, CREATION, group.name)
    found = groups.find(there, group.name)
    if found is None:
        return
    if found.id != group.id:
        raise GroupExists(f"{master} has another group {group.name}.", group=group.name)
    leave(there, found)


def refuse_other_group(master: str, other: str | None, table: str) -> None:
    """Make sure that a table is in no other group.

    Parameters:
        other: the group that it is in at this master.

    Raises:
        CannotReplicate: it is in one.
    """
    if other is not None:
        raise CannotReplicate(
            f"{table} at {master} is in group {other}.", table=table, group=other
        )
