"""Changes a group at all its masters or at none, from its master definition site."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Connection, select

from deferred.parked import error_queue
from deferred.queues.queue import undelivered_calls, undelivered_procedures
from groups import group as groups
from groups import shape, table_queue
from groups.arrange import arrange, leave
from groups.catalog import replication_group
from groups.errors import GroupBusy, GroupChanging, NotDefinitionSite
from groups.everywhere import Decision, at_all, exclusively
from groups.group import Group, TargetType
from groups.unfinished import end_prepared, finish
from sites import QualifiedName, Site
from sites.sessions import identity
from sites.tables import locks
from sites.words import counted, does

#: The open connections to the masters that take part.
Connections = Mapping[str, Connection]


def change(
    home: Site,
    name: str,
    new: Callable[[Group, Connections], Group | None],
    *,
    joining: Sequence[str] = (),
    leaving: Sequence[str] = (),
    gone: Sequence[str] = (),
    here_first: bool = False,
) -> Group:
    """Give a group a new description, and set all its masters up accordingly.

    Parameters:
        home: the master definition site.
        new: makes the new description from the old one, or None to drop the group; it
            may look at all masters, and is called again if a table was locked.
        joining: sites that are to be masters.
        leaving: masters that are to leave the group.
        gone: masters that are not asked, because they will never answer.
        here_first: without two-phase commit, commit at the definition site first. This
            suits a change that removes something: after a crash the others then have
            too much, never too little.

    Raises:
        NoSuchGroup, NotDefinitionSite, SiteUnreachable, GroupChanging.
        OlderSchema, NewerSchema: another version of Snaptide made the schema of one.
        TablesDiffer: a master lacks DDL of the group.
    """
    for one in joining:
        finish(home.peer(one))
    id_ = administered(home, name).id
    with exclusively(home, id_):
        before = administered(home, name)
        asked = (m for m in before.names if m not in (home.name, *gone))
        others = [*asked, *joining]
        end_prepared(home, others, id_)
        order = [home.name, *others] if here_first else [*others, home.name]
        decision = Decision(
            group=id_, version=before.version + 1, home=home.name, leaving=leaving
        )
        for attempt in locks.patiently():
            with attempt, at_all(home, order, decision) as connections:
                _lock(connections[home.name], before)
                stay = {m: c for m, c in connections.items() if m not in leaving}
                newest = _newest_schema(before, stay)
                after = new(replace(before, schema_version=newest), connections)
                _arrange(connections, before, after)
    return after or before


def administered(home: Site, name: str) -> Group:
    """A group that is administered here.

    Raises:
        NoSuchGroup, NotDefinitionSite.
    """
    with identity.confirmed(home) as connection:
        group = groups.get(connection, home.name, name)
    if group.definition_site != home.name:
        raise NotDefinitionSite(
            f"Group {name} is administered at {group.definition_site}.",
            group=name,
            definition_site=group.definition_site,
        )
    return group


def lock_writers(connections: Connections, tables: Sequence[QualifiedName]) -> None:
    """Wait for sessions that write to tables, at every master, and let none begin."""
    for connection in connections.values():
        for table in sorted(tables):
            locks.against_writers(connection, table)


def lock_alike(
    connections: Connections,
    tables: Sequence[QualifiedName],
    refuse: Callable[[QualifiedName], None],
) -> None:
    """Check tables, lock them as `lock_writers` does, and check them again.

    A table that is refused is not locked; one that fits may be altered until it is.

    Parameters:
        refuse: raises an error for a table that does not fit.
    """
    for table in tables:
        refuse(table)
    lock_writers(connections, tables)
    for table in tables:
        refuse(table)


def refuse_busy(
    connections: Connections,
    tables: Sequence[QualifiedName],
    of: str | None = None,
    *,
    besides: str | None = None,
) -> None:
    """Make sure that no call of a group is on its way. Call it after `lock_writers`.

    Parameters:
        of: look only at calls from or to this master.
        besides: ignore calls to this master.

    Raises:
        GroupBusy: calls wait; the message says where.
    """
    for master, connection in connections.items():
        for (what, to), waiting in waiting_calls(connection, tables).items():
            if of in (None, master, to) and to != besides:
                raise GroupBusy(
                    f"{counted(waiting, 'call')} of {what} {does(waiting, 'wait')} at "
                    f"{master} for {to}.",
                    master=master,
                    destination=to,
                    calls=waiting,
                )


def waiting_calls(
    connection: Connection, tables: Sequence[QualifiedName]
) -> dict[tuple[str, str], int]:
    """How many calls wait at a master, by table and destination.

    Calls of procedures count too, because these may change any table there.
    """
    queues = table_queue.found(connection, *tables)
    found = {
        (str(queue.target), queue.destination): undelivered_calls(connection, queue)
        for queue in queues
    }
    for to in sorted({queue.destination for queue in queues}):
        found["procedures", to] = undelivered_procedures(connection, to)
    return {place: count for place, count in found.items() if count}


def refuse_parked(
    connections: Connections,
    tables: Sequence[QualifiedName],
    of: str | None = None,
) -> None:
    """Make sure that no error queue has changes of a group: a retry sends them on.

    Calls of procedures count too, as in `waiting_calls`.

    Parameters:
        of: look only at the error queue of this master.

    Raises:
        GroupBusy: transactions are parked; the message says how many, and where.
    """
    for master, connection in connections.items():
        if of not in (None, master):
            continue
        for table in tables:
            parked = error_queue.of_table(connection, table)
            if parked:
                raise GroupBusy(
                    f"{counted(parked, 'transaction')} that may change {table} "
                    f"{does(parked, 'wait')} in the error queue of {master}.",
                    master=master,
                    transactions=parked,
                )


def compared(group: Group, connections: Connections) -> Connections:
    """The masters whose tables have to be the same; the others take any changes."""
    any_table = {
        one.name
        for one in group.masters
        if one.target_type is TargetType.UNPROTECTED_READ_ONLY
    }
    return {name: c for name, c in connections.items() if name not in any_table}


def _lock(connection: Connection, before: Group) -> None:
    """Lock the group's row at the definition site, which records the decision.

    Raises:
        GroupChanging: the version is not the one that was read before.
    """
    head = replication_group.c
    version = connection.scalar(
        select(head.version).where(head.id == before.id).with_for_update()
    )
    if version != before.version:
        raise GroupChanging(
            f"Another command is changing group {before.name}.", group=before.name
        )


def _newest_schema(group: Group, connections: Connections) -> int:
    """The schema version of the master that knows most of the group's DDL.

    All masters get that version: one that lacked DDL, as after a restore, has to have
    the same tables as the others. It may be the definition site.

    Raises:
        UnknownTable, TablesDiffer: its tables are not the definition site's.
    """
    home = group.definition_site
    head = replication_group.c
    asked = select(head.schema_version).where(head.id == group.id)
    known: dict[str, int | None]
    known = {m: c.scalar(asked) for m, c in connections.items()}
    behind = {m for m, v in known.items() if v not in (None, group.schema_version)}
    if behind:
        alike = compared(group, connections)
        some = {m: c for m, c in alike.items() if m == home or m in behind}
        for table in group.tables:
            shape.refuse_different(some, table, home)
    return max([group.schema_version, *(v for v in known.values() if v is not None)])


def _arrange(connections: Connections, before: Group, after: Group | None) -> None:
    """Set each master up for the new description; one that leaves forgets the group."""
    for master, connection in connections.items():
        if after is not None and master in after.names:
            arrange(connection, master, after)
        else:
            leave(connection, before)
