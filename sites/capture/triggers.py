"""Installing the triggers that record changes of users' tables.

They are statement triggers with transition tables: an UPDATE of 100,000 rows pays for
one function call. Their functions run as their owner with a fixed search_path, so that
an application's role needs no right on Snaptide's tables. The triggers are ENABLE
ALWAYS: otherwise they would not fire with session_replication_role = replica.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from psycopg import sql
from sqlalchemy import (
    Boolean,
    ColumnElement,
    Connection,
    FromClause,
    literal_column,
    text,
)

from sites.catalog import SCHEMA
from sites.errors import RecordedAlready
from sites.names import QualifiedName, identifier
from sites.sessions.prepared import planned_once
from sites.sql import load
from sites.tables.table import Column, Table
from sites.transfer.transport import raw

_WHOLE = """
    WITH RECURSIVE tree AS (
        SELECT c.oid, true AS is_root
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = {schema} AND c.relname = {name}
      UNION ALL
        SELECT i.inhrelid, false FROM tree t JOIN pg_inherits i ON i.inhparent = t.oid
    )
    SELECT count(*) FILTER (WHERE t.is_root) = cardinality({wanted})
       AND COALESCE(bool_and(g.tgenabled = 'A'), false)
    FROM tree t JOIN pg_trigger g ON g.tgrelid = t.oid
    WHERE g.tgname = ANY ({wanted})
"""
_ARE_THERE = planned_once(
    text(
        _WHOLE.format(schema=":schema", name=":name", wanted="CAST(:wanted AS text[])")
    )
)


def are_there(
    connection: Connection, table: QualifiedName, function: str, events: Sequence[str]
) -> bool:
    """Whether a table has the triggers of a function, ENABLE ALWAYS.

    It has not if it was dropped and created again. Those of its partitions have to be
    ENABLE ALWAYS, too: after ENABLE TRIGGER ALL they are not, and may have been off.
    """
    wanted = [_trigger_name(function, event) for event in events]
    names = {"schema": table.schema, "name": table.name, "wanted": wanted}
    return bool(connection.scalar(_ARE_THERE, names))


def of_row(
    row: FromClause, function: str, events: Sequence[str]
) -> ColumnElement[bool]:
    """The same for the table that a row names, in a statement that reads such rows.

    Parameters:
        row: has the columns table_schema and table_name.
        function: begins as the functions of all these tables do, up to the first $.
    """
    wanted = ",".join(_trigger_name(function, event) for event in events)
    whole = _WHOLE.format(
        schema=row.c.table_schema,
        name=row.c.table_name,
        wanted=f"CAST('{{{wanted}}}' AS text[])",
    )
    return literal_column(f"({whole})", Boolean)


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


def attach(
    connection: Connection,
    table: Table,
    function: str,
    *,
    events: Sequence[str],
    subscribed: bool = False,
) -> None:
    """Have a trigger function called after statements on a table; wait for writers.

    Its partitions and inheritance children get triggers of their own.

    Parameters:
        function: in the schema snaptide; with transition tables it sees the rows as
            `snaptide_old` and `snaptide_new`.
        events: the kinds of statement, of INSERT, UPDATE, DELETE, TRUNCATE.
        subscribed: whether writes of a native subscription count, too.

    Raises:
        RecordedAlready: the same kind of function is called for a part of the table.
    """
    tables = tree(connection, table)
    _refuse_recorded(connection, table, [one for one, _ in tables], function)
    for one, cloned in tables:
        for event in events:
            _create_trigger(connection, one, function, event)
        if subscribed and not cloned:
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
_IMAGES = {
    "INSERT": f"REFERENCING {_NEW}",
    "UPDATE": f"REFERENCING {_OLD} {_NEW}",
    "DELETE": f"REFERENCING {_OLD}",
    "TRUNCATE": "",
}


def _create_trigger(
    connection: Connection, table: QualifiedName, function: str, event: str
) -> None:
    name = _trigger_name(function, event)
    statement = sql.SQL(
        "CREATE TRIGGER {name} AFTER {event} ON {table} {images}"
        " FOR EACH STATEMENT EXECUTE FUNCTION {function}()"
    ).format(
        name=sql.Identifier(name),
        event=sql.SQL(event),
        images=sql.SQL(_IMAGES[event]),
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


def same_key(
    table: Table, keys: Sequence[str], called: Mapping[str, sql.Identifier]
) -> sql.Composed:
    """Whether a new and an old row, n and o, are the same one."""
    return sql.SQL(" AND ").join(
        sql.SQL("n.{0} {1} o.{0}").format(called[key], _equals(table.column(key)))
        for key in keys
    )


def _equals(column: Column) -> sql.SQL:
    """The qualified operator of the column's type: PostgreSQL looks `=` up by name."""
    return sql.SQL(f"OPERATOR({column.equality or 'pg_catalog.='})")
