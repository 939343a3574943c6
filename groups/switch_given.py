"""Collects the facts for a switch, and checks that the new master is suitable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection

from deferred.queues import queue
from deferred.queues.queue import Queue
from groups import group as groups
from groups.errors import CannotSwitch
from groups.group import Group, TargetType
from groups.relay import former_senders
from groups.unfinished import unchanging
from sites import Site
from sites.sessions import identity
from sites.sessions.identity import Identity
from snapshots.definitions import definition, refresh_group, snapshot
from snapshots.definitions.errors import UnknownColumn
from snapshots.definitions.refresh_group import RefreshGroup
from snapshots.definitions.snapshot import Snapshot
from snapshots.errors import PositionMoved


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """Where a site sends the changes of snapshots that are to be switched."""

    #: the queues of the updatable ones among them; refreshes note the target's columns
    queues: tuple[Queue, ...] = field(compare=False)
    ids: tuple[int, ...]
    #: all queues to the former master are for tables of the replication group
    alone: bool
    #: no other queue of the site is for a table of that group
    whole: bool
    #: masters of that group to which no queue of the site goes now
    others: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """Snapshots that are to be switched, and their new master."""

    site: Site
    new: Site
    me: Identity
    group: RefreshGroup
    members: tuple[Snapshot, ...]
    #: the replication group that both masters belong to
    replicated: Group
    sending: Sending

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the snapshots."""
        return tuple(one.key for one in self.members)


def look(site: Site, what: str, to: str) -> Switch:
    """Read the facts for a switch, and check that the new master is suitable.

    Parameters:
        what: a snapshot, or its refresh group.

    Raises:
        UnknownSnapshot, UnknownSite, SiteUnreachable, CannotSwitch, NoSnapshotLog,
        UnknownTable, SnapshotRefused.
    """
    with site.session() as connection:
        me = identity.confirm(connection, site.name)
        found = refresh_group.find(connection, what)
        name = found.name if found else snapshot.read(connection, what).refresh_group
        group = found or refresh_group.find(connection, name)
        assert group is not None
        members = tuple(snapshot.members(connection, name))
        if refresh_group.is_synchronous(connection, name):
            raise CannotSwitch(
                f"Changes of {name} go to its master in the user's own transaction: "
                f"snaptide snapshot alter {site.name} {members[0].key} --propagation "
                "asynchronous",
                group=name,
            )
        every = queue.list_queues(connection)
    if to == group.master:
        raise CannotSwitch(f"{to} is already the master of {name}.", group=name)
    new = site.peer(to)
    replicated = _replicated(new, group, members)
    for one in members:
        _refuse_other_table(new, group, one)
    return Switch(
        site=site,
        new=new,
        me=me,
        group=group,
        members=members,
        replicated=replicated,
        sending=_sending(every, group, members, replicated),
    )


def _sending(
    every: Sequence[Queue],
    group: RefreshGroup,
    members: Sequence[Snapshot],
    replicated: Group,
) -> Sending:
    """What all queues of a site come to for a switch."""
    keys, tables = {one.key for one in members}, set(replicated.tables)
    going = [one for one in every if one.destination == group.master]
    queues = tuple(one for one in going if one.snapshot in keys)
    return Sending(
        queues=queues,
        ids=tuple(one.id for one in queues),
        alone={one.target for one in going} <= tables,
        whole=all(one.snapshot in keys for one in every if one.target in tables),
        others=frozenset(replicated.names) - {one.destination for one in every},
    )


def refuse_altered(given: Switch, connection: Connection) -> None:
    """Begin anew if the site is not as it was found.

    A refresh may have followed DDL, or filled a snapshot, which has a queue since then.

    Parameters:
        connection: to the site.

    Raises:
        PositionMoved: snapshots or queues are others.
    """
    name = given.group.name
    group = refresh_group.find(connection, name)
    now = snapshot.members(connection, name)
    every = queue.list_queues(connection)
    if (
        group is None
        or group.master != given.group.master
        or refresh_group.is_synchronous(connection, name)
        or [*map(_shape, now)] != [*map(_shape, given.members)]
        or _sending(every, group, now, given.replicated) != given.sending
    ):
        raise PositionMoved(
            f"Snapshots of {name} were altered during the switch.", group=name
        )


def refuse_regrouped(given: Switch) -> None:
    """Begin anew if the replication group is not as it was found.

    What the former master took may then not have come to the new one, though nothing
    waits. Whatever changes the group later finds the two of them level.

    Raises:
        PositionMoved: its masters or paths are others.
        CannotSwitch: the new master, or a table, has left it.
        GroupChanging: another session is about to change it.
    """
    before = given.replicated
    with given.new.transaction() as connection:
        unchanging(connection, before.id)
    now = _replicated(given.new, given.group, given.members)
    if (now.id, now.masters, now.paths) != (before.id, before.masters, before.paths):
        raise PositionMoved(
            f"Replication group {before.name} was changed during the switch.",
            group=before.name,
        )


def _shape(one: Snapshot) -> tuple[object, ...]:
    """What a refresh does not change of a snapshot that it has filled."""
    return (one.key, one.columns, one.condition, one.loaded)


def _replicated(new: Site, group: RefreshGroup, members: Sequence[Snapshot]) -> Group:
    """The replication group of the tables, with both masters in it.

    The group may have forgotten the former one.
    """
    tables = sorted({one.master for one in members})
    with new.session() as connection:
        identity.confirm(connection, new.name)
        of = {table: groups.group_of(connection, table) for table in tables}
        names = set(of.values())
        name = names.pop() if len(names) == 1 else None
        found = None if name is None else groups.find(connection, name)
        known = found is not None and (
            group.master in found.names
            or former_senders.forgotten_by(connection, [found.id], group.master)
        )
    if found is None:
        told = ", ".join(f"{table} ({of[table] or 'none'})" for table in tables)
        raise CannotSwitch(
            f"The tables are not in one replication group at {new.name}: {told}."
        )
    if not known:
        raise CannotSwitch(
            f"{group.master} is not a master of group {found.name}.", group=found.name
        )
    here = found.master(new.name)
    updatable = any(one.updatable for one in members)
    if not here.joined:
        raise CannotSwitch(
            f"{new.name} is joining group {found.name}: its rows are still being "
            "copied."
        )
    if updatable and here.target_type is not TargetType.FULL_PEER:
        raise CannotSwitch(
            f"{new.name} is {here.target_type} in group {found.name}: it would not "
            "send changes from snapshots to the other masters."
        )
    return found


def _refuse_other_table(new: Site, group: RefreshGroup, member: Snapshot) -> None:
    """Make sure that the new master's table suits a snapshot as it is.

    Raises:
        NoSnapshotLog, UnknownTable, SnapshotRefused, CannotSwitch.
    """
    try:
        found = definition.define(
            new,
            member.master,
            columns=member.columns,
            condition=member.condition,
            updatable=member.updatable,
        )
    except UnknownColumn as gone:
        raise CannotSwitch(
            f"At {new.name}, {gone.message.rstrip('.')}, which {member.key} has: the "
            f"site knows columns by their numbers at {group.master}, and cannot tell "
            f"which one it is by now. If {group.master} answers, have the snapshot "
            "follow there first (snaptide refresh, or snaptide snapshot alter "
            "--rename, --drop-column). If it is gone for good, forget it, give the "
            "masters the former columns back (snaptide group execute-ddl), switch, "
            "and change them again with --and-sites.",
            snapshot=member.key,
            table=str(member.master),
        ) from gone
    for what, there, here in (
        ("columns", found.columns, member.columns),
        ("identity", found.identity, member.identity_columns),
    ):
        if there != here:
            raise CannotSwitch(
                f"{member.master} at {new.name} does not have the {what} of "
                f"{member.key}, but: {', '.join(there)}."
            )
