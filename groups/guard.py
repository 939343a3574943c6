"""Refuses changes that users may not make to a group's table at one of its masters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg import sql

from groups import group as groups
from groups.group import Status, TargetType
from sites import names
from sites.capture import guards, triggers
from sites.names import QualifiedName
from sites.tables.table import Table, find_table

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from groups.group import Group


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The events that are refused, the message, and the sessions that are exempt."""

    message: str
    hint: str
    open_to: sql.Composable
    events: tuple[str, ...] = guards.ALL
    #: it ends by itself: transactions that a push brings have to wait
    passes: bool = False


def install(connection: Connection, group: Group, here: str, table: Table) -> None:
    """Refuse changes that users, or pushes, may not make at a master now."""
    refusal = _refusal(group, here, table.qualified)
    if refusal is None:
        remove(connection, table.qualified)
        return
    guards.install(
        connection,
        table,
        _function(table.qualified),
        events=refusal.events,
        unrecorded=_unrecorded(group, here),
        message=refusal.message,
        hint=refusal.hint,
        open_to=refusal.open_to,
        passes=refusal.passes,
    )


def replace(connection: Connection, here: str) -> None:
    """Install the guards of this version on all tables of a master's groups.

    Users wait where a trigger is new. A table that is gone is skipped.
    """
    for name in groups.names(connection):
        group = groups.get(connection, here, name)
        for table in group.tables:
            if found := find_table(connection, table):
                install(connection, group, here, found)


def remove(connection: Connection, table: QualifiedName) -> None:
    """Remove the guard of a table."""
    triggers.remove(connection, _function(table))


def _refusal(group: Group, here: str, table: QualifiedName) -> Refusal | None:
    master, masters = group.master(here), _brought_by_masters(group)
    if group.status is not Status.NORMAL:
        since = group.status_since.strftime("%Y-%m-%d %H:%M:%S %Z")
        quiesced = group.status is Status.QUIESCED and master.joined
        return Refusal(
            message=f"Replication group {group.name} is {group.status}: "
            f"{group.status_by} suspended it on {since}",
            hint="To open it again, run: snaptide group resume "
            f"{group.definition_site} {group.name}",
            open_to=guards.NOTHING if quiesced else masters,
            passes=True,
        )
    if not master.joined:
        return Refusal(
            message=f"{here} is joining group {group.name}: its rows are not there yet",
            hint="Wait until snaptide group add-master ends; if it was interrupted, "
            "run it again.",
            open_to=masters,
            passes=True,
        )
    if master.target_type is TargetType.PROTECTED_READ_ONLY:
        return Refusal(
            message=f"{table} is read-only at this master of group {group.name}",
            hint="Change the rows at a full peer of the group.",
            open_to=_began_at_masters(group),
        )
    if master.target_type is TargetType.FULL_PEER:
        return Refusal(
            message="A table of a replication group cannot be truncated",
            hint="Delete the rows: a TRUNCATE could not be sent to the other masters.",
            open_to=guards.OURS,
            events=("TRUNCATE",),
        )
    return None


def _unrecorded(group: Group, here: str) -> tuple[str, ...]:
    """Events that no master sends on if a trigger causes them; all if read-only."""
    protected = group.master(here).target_type is TargetType.PROTECTED_READ_ONLY
    return guards.ALL if protected else ("TRUNCATE",)


def _function(table: QualifiedName) -> str:
    return names.derived("guard$_", table)


def _brought_by_masters(group: Group) -> sql.Composable:
    """Condition that lets pass changes pushed by the masters of a group, only."""
    return sql.SQL("COALESCE({} -> 'sources' ? {}, false)").format(
        _TRANSACTION, sql.Literal(str(group.id))
    )


def _began_at_masters(group: Group) -> sql.Composable:
    """The same without changes that a called procedure makes as this master's own."""
    return sql.SQL("COALESCE({} -> 'sources' ->> {} <> '', false)").format(
        _TRANSACTION, sql.Literal(str(group.id))
    )


#: The push's description of the transaction that it applies here.
_TRANSACTION = sql.SQL(
    "NULLIF(current_setting('snaptide.transaction', true), '')::jsonb"
)
