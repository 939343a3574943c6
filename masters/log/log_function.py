"""Installing the trigger function that records the changes of a master table."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import sql
from sqlalchemy import Connection

from masters.log.ring import SLOT_SHIFT, SLOTS
from masters.log.sql import load
from sites.capture import triggers
from sites.capture.triggers import same_key
from sites.catalog import SCHEMA
from sites.names import comma, identifiers, numbered
from sites.tables.table import Table
from sites.transfer.transport import raw

#: The statements that a log records.
EVENTS = ("INSERT", "UPDATE", "DELETE", "TRUNCATE")

#: What the names of logs, and of their functions, begin with.
PREFIX = "mlog$_"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCapture:
    """What a snapshot log records of a master table: keys."""

    table: Table
    #: name of the log table in the schema snaptide, and of its trigger function
    log: str
    #: columns that identify a row; recorded as k1, k2, ...
    identity: tuple[str, ...]
    #: for each of them, the types (without length) whose values the log can hold
    fitting: tuple[tuple[str, ...], ...]


def install(connection: Connection, capture: LogCapture) -> None:
    """Record changes of a master table from now on; wait for open writers."""
    replace(connection, capture)
    triggers.attach(
        connection, capture.table, capture.log, events=EVENTS, subscribed=True
    )


def replace(connection: Connection, capture: LogCapture) -> None:
    """Create or replace the trigger function of a log, without a table lock."""
    keys = identifiers(capture.identity)
    fitting = [
        sql.SQL("({}, {})").format(sql.Literal(name), sql.Literal(kind))
        for name, kinds in zip(capture.identity, capture.fitting, strict=True)
        for kind in kinds
    ]
    body = sql.SQL(load("log_function")).format(
        function=sql.Identifier(SCHEMA, capture.log),
        log=sql.Identifier(SCHEMA, capture.log),
        table=sql.Literal(str(capture.table.oid)),
        slots=sql.Literal(SLOTS),
        slot_shift=sql.Literal(SLOT_SHIFT),
        log_keys=comma(identifiers(numbered("k", capture.identity))),
        keys=comma(sql.SQL("r.{}").format(key) for key in keys),
        key=keys[0],
        key_count=sql.Literal(len(keys)),
        key_names=sql.Literal(list(capture.identity)),
        key_types=comma(fitting),
        either_keys=comma(_either(key) for key in keys),
        row_old_keys=comma(sql.SQL("OLD.{}").format(key) for key in keys),
        row_new_keys=comma(sql.SQL("NEW.{}").format(key) for key in keys),
        same_key=same_key(
            capture.table,
            capture.identity,
            {name: sql.Identifier(name) for name in capture.identity},
        ),
    )
    raw(connection).execute(body)


def _either(key: sql.Identifier) -> sql.Composed:
    return sql.SQL("COALESCE(n.{0}, o.{0})").format(key)
