"""Changes the tables of a group at all its masters or at none."""

from __future__ import annotations

import uuid
from contextlib import nullcontext

from sqlalchemy import Connection

from groups import shape, table_queue
from groups.additive import only_adds_columns
from groups.change import Connections, change, compared
from groups.errors import CannotPrepare, MasterJoins, NotQuiesced
from groups.everywhere import can_prepare
from groups.group import Group, Status, changed
from masters import group_parts
from masters.log.execute_ddl import following, refuse_nothing, run
from sites import QualifiedName, Site
from sites.tables.table import describe


def execute_ddl(
    home: Site, name: str, statements: str, *, and_sites: bool = False
) -> Group:
    """Run DDL at all masters of a group, and record its tables as they are then.

    (Oracle: EXECUTE_DDL, ALTER_MASTER_REPOBJECT.) The tables of the group have to be
    the same at all masters afterwards. They get the next schema version, which both
    ends of a push, and snapshots, compare with their own.

    While the group is open to users, only columns can be added that may be null or
    have a constant for their default. Calls on their way are pushed afterwards. In a
    group that is quiesced any DDL can run, and delivered calls are no longer kept.

    Parameters:
        home: the master definition site.
        statements: SQL, as a user with the usual search path would write it.
        and_sites: sites of all masters follow, as by `masters.execute_ddl`.

    Raises:
        NoSuchGroup, NotDefinitionSite, SiteUnreachable.
        MasterJoins: rows are being copied to a new master, or the copy was cut off.
        NotQuiesced: the group is open to users, and the statements do more than that.
        TooWide: the group is open to users, and rows of the table fill a page.
        CannotPrepare: a server allows no prepared transactions, without which
            it would not be certain that all masters or none have changed.
        DdlRefused: a master refuses a statement, or sites could not follow; nothing
            was changed anywhere.
        TablesDiffer, CannotReplicate, UnknownTable: the tables would not be the same.
    """
    additive = only_adds_columns(statements)
    id_ = uuid.uuid4()

    def with_ddl(group: Group, connections: Connections) -> Group:
        _refuse_joining(group)
        _refuse_open(group, additive=additive)
        _refuse_unprepared(connections)
        altered: set[QualifiedName] = set()
        for master, connection in connections.items():
            also = following(connection, id_, statements) if and_sites else None
            with also or nullcontext([]) as tables:
                _run(connection, group, master, statements, additive=additive)
            altered |= {*tables}
        if and_sites:
            refuse_nothing(altered)
        for table in group.tables:
            shape.refuse_different(compared(group, connections), table, home.name)
        return changed(group, schema_version=group.schema_version + 1)

    return change(home, name, with_ddl)


def _refuse_joining(group: Group) -> None:
    if group.joining:
        joining = sorted(group.joining)
        raise MasterJoins(
            f"{', '.join(joining)} is joining group {group.name}: its rows are copied "
            "from the tables as they are now.",
            group=group.name,
            joining=joining,
        )


def _refuse_open(group: Group, *, additive: bool) -> None:
    if not additive and group.status is not Status.QUIESCED:
        raise NotQuiesced(
            f"Group {group.name} is {group.status}, and the statements do more than "
            "add columns that are nullable or have a constant default.",
            group=group.name,
        )


def _refuse_unprepared(connections: Connections) -> None:
    for master, connection in connections.items():
        if len(connections) > 1 and not can_prepare(connection):
            raise CannotPrepare(
                f"{master} has max_prepared_transactions = 0.", master=master
            )


def _extend(connection: Connection, group: Group) -> None:
    """Queue the new columns too; calls that wait in the queues stay there."""
    for name in group.tables:
        table = describe(connection, name)
        table_queue.extend(connection, table, shape.carried(table))


def _run(
    connection: Connection,
    group: Group,
    master: str,
    statements: str,
    *,
    additive: bool,
) -> None:
    if additive:
        run(connection, master, statements)
        _extend(connection, group)
        return
    before = group_parts.others(connection, group.id)
    table_queue.remove(connection, *group.tables)
    run(connection, master, statements)
    group_parts.follow_ddl(connection, group.id, before)
