"""What users may not do to a table of a group at one of its masters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groups.group import Status, TargetType
from sites import names, triggers
from sites.names import QualifiedName
from sites.table import Table

if TYPE_CHECKING:
    from psycopg import sql
    from sqlalchemy import Connection

    from groups.group import Group

_CHANGES = ("INSERT", "UPDATE", "DELETE", "TRUNCATE")


def install(connection: Connection, group: Group, here: str, table: Table) -> None:
    """Refuse at a master what its users, or pushes, may not do now."""
    target_type = group.master(here).target_type
    if group.status is not Status.NORMAL:
        since = group.status_since.strftime("%Y-%m-%d %H:%M:%S %Z")
        _refuse(
            connection,
            table,
            _CHANGES,
            f"Replication group {group.name} is {group.status}: {group.status_by} has"
            f" suspended it, on {since}",
            f"It can be changed again after: snaptide group resume"
            f" {group.definition_site} {group.name}",
            triggers.NOTHING
            if group.status is Status.QUIESCED and group.master(here).joined
            else triggers.brought_by_masters(group.name),
        )
    elif not group.master(here).joined:
        _refuse(
            connection,
            table,
            _CHANGES,
            f"{here} is joining group {group.name}: its rows are not there yet",
            "Wait for snaptide group add-master; cut off, it has to be said again.",
            triggers.brought_by_masters(group.name),
        )
    elif target_type is TargetType.PROTECTED_READ_ONLY:
        _refuse(
            connection,
            table,
            _CHANGES,
            f"{table.qualified} is read-only at this master of group {group.name}",
            "Change the rows at a full peer of the group.",
            triggers.brought_by_masters(group.name),
        )
    elif target_type is TargetType.FULL_PEER:
        _refuse(
            connection,
            table,
            ("TRUNCATE",),
            "A table of a replication group cannot be truncated",
            "Delete the rows: a TRUNCATE could not be sent to the other masters.",
            triggers.OURS,
        )
    else:
        remove(connection, table.qualified)


def remove(connection: Connection, table: QualifiedName) -> None:
    """Refuse nothing any more."""
    triggers.remove(connection, _function(table))


def _refuse(
    connection: Connection,
    table: Table,
    events: tuple[str, ...],
    message: str,
    hint: str,
    open_to: sql.Composable,
) -> None:
    triggers.install_guard(
        connection,
        table,
        _function(table.qualified),
        events=events,
        message=message,
        hint=hint,
        open_to=open_to,
    )


def _function(table: QualifiedName) -> str:
    return names.derived("guard$_", table)
