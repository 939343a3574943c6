"""Sets a master up as the description of a group says.

It uses nothing but the description, so that the next command finishes one that was cut
off: a master with another version than the master definition site is set up again.
"""

from __future__ import annotations

from sqlalchemy import Connection

from deferred.parked import differing
from deferred.queues import destination_state
from groups import group as groups
from groups import guard, table_queue
from groups.group import Group, TargetType
from groups.relay import duplicate_watch, former_senders, holds
from groups.relay.arrivals import forget
from groups.shape import carried
from masters import group_parts, group_schema
from masters.apply.unchecked import set_unchecked
from sites import QualifiedName
from sites.tables import roles
from sites.tables.table import describe_all


def arrange(connection: Connection, here: str, group: Group) -> None:
    """Store the description of a group, and queue its tables accordingly.

    Raises:
        UnknownTable: a table of the group is not there.
        QueueNotEmpty: a queue that is to go has calls that are not delivered.
    """
    before = groups.find(connection, group.name)
    groups.store(connection, group)
    former_senders.admit(connection, group.id, group.names)
    if before is not None:
        _release(connection, *sorted(set(before.tables) - set(group.tables)))
    tables = describe_all(connection, group.tables)
    roles.open_to(connection, roles.MASTER, *group.tables)
    table_queue.arrange(
        connection,
        group.id,
        [(table, carried(table)) for table in tables],
        group.routes(here),
        group.error_action,
    )
    unchecked = group.master(here).target_type is TargetType.UNPROTECTED_READ_ONLY
    for table in tables:
        guard.install(connection, group, here, table)
    set_unchecked(connection, *group.tables, unchecked=unchecked)
    group_schema.set_version(connection, group.tables, group.id, group.schema_version)
    group_parts.note_first(connection)
    destination_state.set_joining(connection, group.id, group.name, group.joining)


def leave(connection: Connection, group: Group) -> None:
    """Forget a group; its tables stay, and are no longer queued."""
    _release(connection, *group.tables)
    destination_state.set_joining(connection, group.id, group.name, [])
    forget(connection, group.id)
    duplicate_watch.forget(connection, group.id)
    former_senders.forget(connection, group.id)
    holds.end(connection, group.id)
    differing.forget(connection, group.id)
    groups.forget(connection, group.id)


def _release(connection: Connection, *tables: QualifiedName) -> None:
    if not tables:
        return
    table_queue.remove(connection, *tables)
    for table in tables:
        guard.remove(connection, table)
    set_unchecked(connection, *tables, unchecked=False)
    group_schema.forget(connection, *tables)
