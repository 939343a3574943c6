"""Changing a group: at all its masters or at none, from its master definition site."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import Connection

from deferred import group_queue
from deferred.queue import undelivered_calls
from groups import group as groups
from groups.arrange import arrange
from groups.errors import GroupBusy, NotDefinitionSite
from groups.everywhere import at_all
from groups.group import Group
from sites import QualifiedName, Site, identity, locks

#: What the masters that take part have open.
Connections = Mapping[str, Connection]


def change(
    home: Site,
    name: str,
    new: Callable[[Group, Connections], Group],
    *,
    joining: Sequence[str] = (),
    here_first: bool = False,
) -> Group:
    """Have all masters of a group do what it is from now on.

    Parameters:
        home: the master definition site.
        new: makes of the group what it is to be; it may look at all masters, and is
            called again where a table was locked.
        joining: sites that are to be masters.
        here_first: commit at the master definition site first, as fits what takes
            something away: what a crash leaves at the others is then too much,
            never too little.

    Raises:
        NoSuchGroup, NotDefinitionSite, SiteUnreachable, OtherSchema.
    """
    for attempt in locks.patiently():
        with attempt:
            masters = administered(home, name).names
            others = [*(m for m in masters if m != home.name), *joining]
            order = [home.name, *others] if here_first else [*others, home.name]
            with at_all(home, order) as connections:
                before = _administered(connections[home.name], home, name)
                group = new(before, connections)
                for master in group.names:
                    arrange(connections[master], master, group)
    return group


def administered(home: Site, name: str) -> Group:
    """A group that is administered here.

    Raises:
        NoSuchGroup, NotDefinitionSite.
    """
    with home.begin() as connection:
        identity.confirm(connection, home.name)
        return _administered(connection, home, name)


def lock_writers(connections: Connections, tables: Sequence[QualifiedName]) -> None:
    """Wait for those who write to tables, at every master, and let no other begin."""
    for connection in connections.values():
        for table in sorted(tables):
            locks.against_writers(connection, table)


def refuse_busy(
    connections: Connections,
    tables: Sequence[QualifiedName],
    to: str | None = None,
) -> None:
    """Make sure that nothing of a group is on its way. Call it behind `lock_writers`.

    Parameters:
        to: only what is on its way from or to this master.

    Raises:
        GroupBusy: says what waits, and where.
    """
    for master, connection in connections.items():
        for table in tables:
            for way in group_queue.found(connection, table):
                if to not in (None, master, way.destination):
                    continue
                waiting = undelivered_calls(connection, way)
                if waiting:
                    raise GroupBusy(
                        f"{waiting} calls of {table} wait at {master} for"
                        f" {way.destination}.",
                        master=master,
                        destination=way.destination,
                        calls=waiting,
                    )


def _administered(connection: Connection, home: Site, name: str) -> Group:
    group = groups.get(connection, home.name, name)
    if group.definition_site != home.name:
        raise NotDefinitionSite(
            f"Group {name} is administered at {group.definition_site}.",
            group=name,
            definition_site=group.definition_site,
        )
    return group
