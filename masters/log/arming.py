"""Giving new partitions and children of master tables the triggers of their logs.

An event trigger does it in the statement that creates or attaches them, so that not one
change of them is unrecorded. PostgreSQL lets only superusers make an event trigger, or
whom a managed service has chosen. Without it, the next refresh finds the part and
compares all of its rows (`masters.log.whole`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from psycopg import errors, sql
from sqlalchemy import Connection, text

from masters.log import log_function
from masters.log.sql import load
from sites.capture import triggers
from sites.catalog import SCHEMA
from sites.sessions.exchange import raw
from sites.tables import locks

FUNCTION = "arm_parts"
TRIGGER = "snaptide_arm_parts"

#: Why it does nothing at a site whose user may not create it.
MISSING = "is not there"

#: The statements that can give a table a part.
_TAGS = ("CREATE SCHEMA", "CREATE TABLE", "ALTER TABLE")

_STATE = text(
    "SELECT e.evtenabled::text, p.prosrc FROM pg_event_trigger e"
    " JOIN pg_proc p ON p.oid = e.evtfoid WHERE e.evtname = :name"
)


def install(connection: Connection) -> None:
    """Create the event trigger of this version, if it is not there and we may."""
    wait_turn(connection)
    if why_not(connection) is None:
        return
    with suppress(errors.InsufficientPrivilege), connection.begin_nested():
        for statement in statements():
            raw(connection).execute(statement)


def wait_turn(connection: Connection) -> None:
    """Wait for transactions that make the first log or drop the last one."""
    locks.wait_turn(connection, "snaptide.arming")


def remove(connection: Connection) -> None:
    """Drop the event trigger; the owner of our schema may, whoever has created it."""
    raw(connection).execute(_dropping())


def why_not(connection: Connection) -> str | None:
    """Why new parts do not get their triggers at once; None if they do."""
    found = connection.execute(_STATE, {"name": TRIGGER}).one_or_none()
    if found is None:
        return MISSING
    if found.evtenabled != triggers.ALWAYS:
        return "is not always on"
    if found.prosrc not in _definition().as_string():
        return "is that of another version"
    return None


def statements() -> Iterator[sql.Composed]:
    """What creates the event trigger; in one transaction.

    The function is new each time: it belongs to the user who creates the trigger, and
    nobody with fewer rights can put another one in its place.
    """
    function = sql.Identifier(SCHEMA, FUNCTION)
    yield _dropping()
    yield _definition()
    yield sql.SQL(
        "CREATE EVENT TRIGGER {} ON ddl_command_end WHEN TAG IN ({})"
        " EXECUTE FUNCTION {}()"
    ).format(
        sql.Identifier(TRIGGER), sql.SQL(", ").join(map(sql.Literal, _TAGS)), function
    )
    yield sql.SQL("ALTER EVENT TRIGGER {} ENABLE ALWAYS").format(
        sql.Identifier(TRIGGER)
    )


def _dropping() -> sql.Composed:
    drop = sql.SQL("DROP FUNCTION IF EXISTS {}() CASCADE")
    return drop.format(sql.Identifier(SCHEMA, FUNCTION))


def _definition() -> sql.Composed:
    return sql.SQL(load("arm_parts")).format(
        function=sql.Identifier(SCHEMA, FUNCTION),
        schema=sql.Literal(SCHEMA),
        moment=sql.Literal(locks.MOMENT),
        trigger=sql.Literal(triggers.name_of(log_function.PREFIX, "INSERT")),
        patterns=_patterns(*log_function.EVENTS),
        patterns_of_children=_patterns(triggers.SUBSCRIBED),
    )


def _patterns(*events: str) -> sql.Composed:
    """The patterns of statements that create triggers, as an array of PL/pgSQL."""
    found = [
        sql.Literal(one.as_string())
        for event in events
        for one in triggers.creation_patterns(log_function.PREFIX, event)
    ]
    return sql.SQL("ARRAY[{}]").format(sql.SQL(", ").join(found))
