"""Finding users' triggers on their tables, and disabling them for a while."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from psycopg import sql
from sqlalchemy import Connection, text

from sites.names import QualifiedName, identifier
from sites.sessions.exchange import raw
from sites.sql import load

_FIRING = text(load("users_triggers"))


@dataclass(frozen=True, slots=True, kw_only=True)
class UsersTrigger:
    """A trigger of a user's own that fires when its table is written."""

    table: QualifiedName
    name: str
    #: fires also with session_replication_role = replica
    always: bool
    #: fires before a row is inserted or updated, and may give it other values
    sets_values: bool


def firing(connection: Connection, table: QualifiedName) -> list[UsersTrigger]:
    """The users' triggers that fire on a table, its partitions and children."""
    rows = connection.execute(_FIRING, {"schema": table.schema, "name": table.name})
    return [
        UsersTrigger(
            table=QualifiedName(schema, name),
            name=trigger,
            always=always,
            sets_values=sets,
        )
        for schema, name, trigger, always, sets in rows
    ]


def firing_names(connection: Connection, table: QualifiedName) -> tuple[str, ...]:
    """The names of these triggers, each once: partitions have those of their table."""
    return tuple(dict.fromkeys(one.name for one in firing(connection, table)))


@contextmanager
def silenced(connection: Connection, tables: Iterable[QualifiedName]) -> Iterator[None]:
    """Keep users' triggers from firing for writes of this transaction in the block.

    Until the transaction ends, other sessions cannot write tables with such triggers. A
    rollback enables the triggers again.
    """
    quiet = [one for table in tables for one in firing(connection, table)]
    for one in quiet:
        _set(connection, one, "DISABLE TRIGGER")
    yield
    if quiet:
        # A table with pending deferred checks cannot be altered.
        connection.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))
    for one in quiet:
        verb = "ENABLE ALWAYS TRIGGER" if one.always else "ENABLE TRIGGER"
        _set(connection, one, verb)


def _set(connection: Connection, trigger: UsersTrigger, verb: str) -> None:
    statement = sql.SQL("ALTER TABLE ONLY {} {} {}").format(
        identifier(trigger.table), sql.SQL(verb), sql.Identifier(trigger.name)
    )
    raw(connection).execute(statement)
