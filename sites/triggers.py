"""Building and installing the triggers that record changes of users' tables.

They are statement triggers with transition tables: an UPDATE of 100,000 rows pays for
one function call. Their functions run as their owner with a fixed search_path, so that
an application's role needs no right on Snaptide's tables. The triggers are ENABLE
ALWAYS: otherwise they would not fire with session_replication_role = replica.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql
from sqlalchemy import Connection, text

from sites.catalog import SCHEMA
from sites.errors import RecordedAlready
from sites.names import QualifiedName, comma, identifier, identifiers
from sites.names import numbered as numbered
from sites.prepared import planned_once
from sites.queue_function import QueueCapture as QueueCapture
from sites.queue_function import queue_function, same_key
from sites.sql import load
from sites.table import Table
from sites.transport import raw

#: Size of a log's ring of partitions, and the bits of a transaction id that do not
#: count: the id gives the partition, so that writers agree on it without a query.
SLOTS = 8
SLOT_SHIFT = 15


_COUNT_ENABLED = planned_once(
    text(
        "SELECT count(*) FROM pg_trigger t"
        " JOIN pg_class c ON c.oid = t.tgrelid"
        " JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = :schema AND c.relname = :name"
        " AND t.tgname = ANY (:wanted) AND t.tgenabled = 'A'"
    )
)


_MADE_FOR = text(
    "SELECT substring(p.prosrc FROM :named) FROM pg_proc p"
    " WHERE p.pronamespace = 'snaptide'::regnamespace"
    " AND p.proname = :queue AND p.pronargs = 0"
)


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


def install_log(connection: Connection, capture: LogCapture) -> None:
    """Record changes of a master table from now on; wait for open writers."""
    replace_log_function(connection, capture)
    _attach(connection, capture.table, capture.log, for_log=True)


def replace_log_function(connection: Connection, capture: LogCapture) -> None:
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


def install_queue(connection: Connection, capture: QueueCapture) -> None:
    """Queue changes of a table from now on; wait for open writers."""
    replace_queue_function(connection, capture)
    _attach(connection, capture.table, capture.queue, for_log=False)


def replace_queue_function(connection: Connection, capture: QueueCapture) -> None:
    """Create or replace the trigger function of a queue, without a table lock."""
    raw(connection).execute(queue_function(capture))


def are_there(connection: Connection, table: QualifiedName, log: str) -> bool:
    """Whether all triggers of a log are on its table, and ENABLE ALWAYS.

    They are not if the table was dropped and created again.
    """
    wanted = [_trigger_name(log, event) for event, _ in _TRIGGERS]
    names = {"schema": table.schema, "name": table.name, "wanted": wanted}
    found = connection.scalar(_COUNT_ENABLED, names)
    return bool(found == len(wanted))


def is_made_for(connection: Connection, queue: str, oid: int) -> bool:
    """Whether the function of a queue was made for the table with this oid.

    In a copy that was dumped and restored it was not. True for the function of an older
    version, which has no oid in it.
    """
    known = connection.scalar(
        _MADE_FOR, {"queue": queue, "named": r"TG_RELID <> '(\d+)'"}
    )
    return known in (None, str(oid))


def remove(connection: Connection, function: str) -> None:
    """Drop a trigger function of ours, its triggers, and the function that it calls."""
    name = sql.Identifier(SCHEMA, function)
    drop = sql.SQL("DROP FUNCTION IF EXISTS {}() CASCADE")
    raw(connection).execute(drop.format(name))
    asked = sql.SQL("DROP FUNCTION IF EXISTS {}(regclass)")
    raw(connection).execute(asked.format(name))


def tree(connection: Connection, table: Table) -> list[tuple[QualifiedName, bool]]:
    """A table with its partitions and inheritance children, all of which get triggers.

    Each is paired with whether it is a partition: PostgreSQL clones row triggers to it.
    """
    rows = connection.execute(text(load("trigger_tree")), {"oid": table.oid}).all()
    return [(QualifiedName(schema, name), cloned) for schema, name, cloned in rows]


def enable_always(connection: Connection, table: QualifiedName, trigger: str) -> None:
    """Let a trigger fire also with session_replication_role = replica."""
    raw(connection).execute(
        sql.SQL("ALTER TABLE {} ENABLE ALWAYS TRIGGER {}").format(
            identifier(table), sql.Identifier(trigger)
        )
    )


def _attach(
    connection: Connection, table: Table, function: str, *, for_log: bool
) -> None:
    tables = tree(connection, table)
    _refuse_recorded(connection, table, [one for one, _ in tables], function)
    for one, cloned in tables:
        for trigger in _TRIGGERS if for_log else _TRIGGERS[:3]:
            _create_trigger(connection, one, function, *trigger)
        if for_log and not cloned:
            _create_row_trigger(connection, one, function)


def _refuse_recorded(
    connection: Connection,
    table: Table,
    tables: Sequence[QualifiedName],
    function: str,
) -> None:
    """Refuse a table if it, a part of it, or the whole is recorded already."""
    parts = {
        "schemas": [one.schema for one in tables],
        "names": [one.name for one in tables],
        "trigger": _trigger_name(function, "INSERT"),
        "function": function,
    }
    found = connection.execute(text(load("recorded_already")), parts).first()
    if found is not None:
        part = QualifiedName(found.schema, found.name)
        raise RecordedAlready(
            f"Changes of {part} are already recorded for its present or former parent "
            f"table: {table.qualified} would record them twice.",
            table=str(part),
            recorded_in=found.function,
        )


_NEW, _OLD = "NEW TABLE AS snaptide_new", "OLD TABLE AS snaptide_old"
_TRIGGERS = (
    ("INSERT", f"REFERENCING {_NEW}"),
    ("UPDATE", f"REFERENCING {_OLD} {_NEW}"),
    ("DELETE", f"REFERENCING {_OLD}"),
    ("TRUNCATE", ""),
)


def _create_trigger(
    connection: Connection, table: QualifiedName, function: str, event: str, images: str
) -> None:
    name = _trigger_name(function, event)
    statement = sql.SQL(
        "CREATE TRIGGER {name} AFTER {event} ON {table} {images}"
        " FOR EACH STATEMENT EXECUTE FUNCTION {function}()"
    ).format(
        name=sql.Identifier(name),
        event=sql.SQL(event),
        images=sql.SQL(images),
        table=identifier(table),
        function=sql.Identifier(SCHEMA, function),
    )
    raw(connection).execute(statement)
    enable_always(connection, table, name)


def _create_row_trigger(
    connection: Connection, table: QualifiedName, function: str
) -> None:
    """Record writes of a native subscription; nothing else fires this trigger."""
    name = _trigger_name(function, "replica")
    parts = {
        "name": sql.Identifier(name),
        "table": identifier(table),
        "function": sql.Identifier(SCHEMA, function),
    }
    create = sql.SQL(
        "CREATE TRIGGER {name} AFTER INSERT OR UPDATE OR DELETE ON {table}"
        " FOR EACH ROW EXECUTE FUNCTION {function}()"
    )
    raw(connection).execute(create.format(**parts))
    enable = sql.SQL("ALTER TABLE {table} ENABLE REPLICA TRIGGER {name}")
    raw(connection).execute(enable.format(**parts))


def _trigger_name(function: str, event: str) -> str:
    # The kind of record is part of the name: one table can have a log and a queue.
    return f"snaptide_{function.partition('$')[0]}_{event.lower()}"


def _either(key: sql.Identifier) -> sql.Composed:
    return sql.SQL("COALESCE(n.{0}, o.{0})").format(key)
