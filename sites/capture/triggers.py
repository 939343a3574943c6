"""Installing the triggers that record changes of users' tables.

They are statement triggers with transition tables: an UPDATE of 100,000 rows pays for
one function call. Their functions run as their owner with a fixed search_path, so that
an application's role needs no right on Snaptide's tables. The triggers are ENABLE
ALWAYS: otherwise they would not fire with session_replication_role = replica.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql
from sqlalchemy import Boolean, ColumnElement, Connection, literal_column, text

from sites.catalog import SCHEMA
from sites.errors import RecordedAlready
from sites.names import QualifiedName, identifier
from sites.sessions.exchange import raw
from sites.sessions.prepared import Prepared
from sites.sql import load
from sites.tables.table import Table

#: How triggers of ours are enabled: ALWAYS, or for a native subscription alone.
ALWAYS, REPLICA = "A", "R"

#: In the place of a kind of statement: writes of a native subscription.
SUBSCRIBED = "REPLICA"

#: In a trigger function: a foreign key's action may have caused the statement.
CASCADE = sql.SQL(load("cascade").rstrip())

#: Whether a table and each of its parts has the wanted triggers of a function.
_WHOLE = """
    WITH RECURSIVE tree AS (
        SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = {schema} AND c.relname = {name}
      UNION
        SELECT i.inhrelid FROM tree t JOIN pg_inherits i ON i.inhparent = t.oid
    )
    SELECT COALESCE(bool_and((
        SELECT count(*) FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid
        WHERE g.tgrelid = t.oid AND concat(g.tgname, ' ', g.tgenabled) = ANY ({wanted})
          AND p.proname = {function} AND p.pronamespace = 'snaptide'::regnamespace
    ) = cardinality({wanted})), false)
    FROM tree t
"""
_ARE_THERE = Prepared(
    text(
        _WHOLE.format(
            schema=":schema",
            name=":name",
            wanted="CAST(:wanted AS text[])",
            function=":function",
        )
    )
)

#: Of some functions, the triggers on each table, with how they are enabled.
_THERE = text(
    "SELECT n.nspname, c.relname, g.tgname, g.tgenabled::text AS how"
    " FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid"
    " JOIN pg_namespace n ON n.oid = c.relnamespace"
    " JOIN pg_proc p ON p.oid = g.tgfoid"
    " WHERE p.proname = :function AND p.pronamespace = 'snaptide'::regnamespace"
)


def are_there(
    connection: Connection, table: QualifiedName, function: str, events: Sequence[str]
) -> bool:
    """Whether a table and all its parts have the triggers of a function, ENABLE ALWAYS.

    They have not if one was dropped and created again, or a partition came later; and
    after ENABLE TRIGGER ALL they are not ALWAYS, and may have been off.
    """
    names = {
        "schema": table.schema,
        "name": table.name,
        "wanted": _wanted(function, events, subscribed=False),
        "function": function,
    }
    return bool(_ARE_THERE.run(connection, **names).scalar())


def of_row(
    schema: ColumnElement[str],
    name: ColumnElement[str],
    function: ColumnElement[str],
    *,
    prefix: str,
    events: Sequence[str],
    subscribed: bool = False,
) -> ColumnElement[bool]:
    """The same for the table that a row names, in a statement that reads such rows.

    Parameters:
        schema, name, function: columns that name the table, and its function.
        prefix: what the names of all these functions begin with, up to the first $.
        events, subscribed: as `attach` was given.
    """
    wanted = ",".join(_wanted(prefix, events, subscribed=subscribed))
    whole = _WHOLE.format(
        schema=schema,
        name=name,
        wanted=f"CAST('{{{wanted}}}' AS text[])",
        function=function,
    )
    return literal_column(f"({whole})", Boolean)


def _wanted(function: str, events: Sequence[str], *, subscribed: bool) -> list[str]:
    """The triggers of a function on one table, and how each is enabled."""
    every = (*events, SUBSCRIBED) if subscribed else events
    return [f"{name_of(function, event)} {_mode(event)}" for event in every]


def remove(connection: Connection, function: str) -> None:
    """Drop a trigger function of ours, its triggers, and the function that it calls."""
    name = sql.Identifier(SCHEMA, function)
    drop = sql.SQL(
        "DROP FUNCTION IF EXISTS {0}() CASCADE; DROP FUNCTION IF EXISTS {0}(regclass)"
    )
    raw(connection).execute(drop.format(name))


def tree(connection: Connection, table: Table) -> list[tuple[QualifiedName, bool]]:
    """A table with its partitions and inheritance children, all of which get triggers.

    Each is paired with whether it is a partition: PostgreSQL clones row triggers to it.
    """
    rows = connection.execute(text(load("trigger_tree")), {"oid": table.oid}).all()
    return [(QualifiedName(schema, name), cloned) for schema, name, cloned in rows]


def attach(
    connection: Connection,
    table: Table,
    function: str,
    *,
    events: Sequence[str],
    subscribed: bool = False,
) -> None:
    """Have a trigger function called after statements on a table; wait for writers.

    Its partitions and inheritance children get triggers of their own. What is there
    already stays as it is.

    Parameters:
        function: in the schema snaptide; with transition tables it sees the rows as
            `snaptide_old` and `snaptide_new`.
        events: the kinds of statement, of INSERT, UPDATE, DELETE, TRUNCATE.
        subscribed: whether writes of a native subscription count, too.

    Raises:
        RecordedAlready: the same kind of function is called for a part of the table.
    """
    parts = tree(connection, table)
    _refuse_recorded(connection, table, [one for one, _ in parts], function)
    missing = _lacking(
        connection, parts, function, events=events, subscribed=subscribed
    )
    run(
        connection,
        *kept_to_owner(connection, table.oid, function),
        *(statement for one in missing for statement in one.statements()),
    )


def run(connection: Connection, *statements: sql.Composed) -> None:
    """Run statements that return nothing in one round trip."""
    raw(connection).execute(sql.SQL(";\n").join(statements))


def kept_to_owner(
    connection: Connection, table: int, function: str
) -> list[sql.Composed]:
    """What lets only a table's owner make triggers that call a function of ours.

    By default every user may make one, also on a temporary table of their own. The
    function would then record rows of that table, with the rights of its owner, as
    changes of this one. The owner of the table has to: partitions that are attached to
    it get the triggers.

    Parameters:
        table: its oid.
        function: in the schema snaptide.
    """
    name = sql.Identifier(SCHEMA, function)
    owner = connection.scalar(_OWNER, {"table": table})
    return [
        sql.SQL("REVOKE EXECUTE ON FUNCTION {}() FROM PUBLIC").format(name),
        sql.SQL("GRANT EXECUTE ON FUNCTION {}() TO {}").format(
            name, sql.Identifier(str(owner))
        ),
    ]


_OWNER = text("SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = :table")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lacking:
    """A table, or a part of one, without all of the triggers that it should have."""

    table: QualifiedName
    function: str
    #: kinds of statement without a trigger; those whose trigger is not on as it should
    missing: tuple[str, ...]
    off: tuple[str, ...]
    #: it has none of the triggers, as a partition that came later
    is_new: bool

    def statements(self) -> list[sql.Composed]:
        """What creates the triggers, or switches them on."""
        made = [
            statement
            for event in self.missing
            for statement in creation(self.table, self.function, event)
        ]
        return made + [
            enabling(self.table, name_of(self.function, event), event)
            for event in self.off
        ]


def lacking(
    connection: Connection,
    table: Table,
    function: str,
    *,
    events: Sequence[str],
    subscribed: bool = False,
) -> list[Lacking]:
    """A table and its parts, as far as they lack triggers or have them off.

    The parameters are those of `attach`.
    """
    parts = tree(connection, table)
    return _lacking(connection, parts, function, events=events, subscribed=subscribed)


def _lacking(
    connection: Connection,
    parts: Sequence[tuple[QualifiedName, bool]],
    function: str,
    *,
    events: Sequence[str],
    subscribed: bool,
) -> list[Lacking]:
    """The same of parts as `tree` finds them."""
    how = {
        (QualifiedName(row.nspname, row.relname), row.tgname): row.how
        for row in connection.execute(_THERE, {"function": function})
    }
    every = (*events, SUBSCRIBED) if subscribed else tuple(events)
    found = []
    for one, cloned in parts:
        state = {event: how.get((one, name_of(function, event))) for event in every}
        gone = [
            event
            for event, there in state.items()
            if there is None and not (cloned and event == SUBSCRIBED)
        ]
        off = [e for e, there in state.items() if there not in (None, _mode(e))]
        if gone or off:
            new = all(state[event] is None for event in events)
            found.append(
                Lacking(
                    table=one,
                    function=function,
                    missing=tuple(gone),
                    off=tuple(off),
                    is_new=new,
                )
            )
    return found


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
        "trigger": name_of(function, "INSERT"),
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
    "INSERT": f" REFERENCING {_NEW}",
    "UPDATE": f" REFERENCING {_OLD} {_NEW}",
    "DELETE": f" REFERENCING {_OLD}",
}


def creation(table: QualifiedName, function: str, event: str) -> list[sql.Composed]:
    """The statements that have a function called, whatever the replication role.

    Parameters:
        event: a kind of statement; or `SUBSCRIBED`, for the row trigger that records
            writes of a native subscription, and that nothing else fires.
    """
    called, name = sql.Identifier(SCHEMA, function), name_of(function, event)
    # PostgreSQL clones a row trigger to partitions. One that was the whole table before
    # has a trigger of that name, which becomes the clone.
    return _creation(identifier(table), called, name, event, replaces=True)


def creation_patterns(prefix: str, event: str) -> list[sql.Composed]:
    """The same for a function of the database, as patterns of PostgreSQL's format().

    Their first argument is the table, as regclass, and the second the name of the
    function.

    Parameters:
        prefix: as in `of_row`.
    """
    called = sql.SQL("{}.%2$I").format(sql.Identifier(SCHEMA))
    return _creation(sql.SQL("%1$s"), called, name_of(prefix, event), event)


def _creation(
    table: sql.Composable,
    function: sql.Composable,
    name: str,
    event: str,
    *,
    replaces: bool = False,
) -> list[sql.Composed]:
    create = _CREATE_FOR_ROWS if event == SUBSCRIBED else _CREATE
    statement = sql.SQL(create).format(
        replaces=sql.SQL("OR REPLACE " if replaces else ""),
        name=sql.Identifier(name),
        event=sql.SQL(event),
        images=sql.SQL(_IMAGES.get(event, "")),
        table=table,
        function=function,
    )
    return [statement, _enabling(table, name, event)]


_CREATE = (
    "CREATE TRIGGER {name} AFTER {event} ON {table}{images}"
    " FOR EACH STATEMENT EXECUTE FUNCTION {function}()"
)
_CREATE_FOR_ROWS = (
    "CREATE {replaces}TRIGGER {name} AFTER INSERT OR UPDATE OR DELETE ON {table}"
    " FOR EACH ROW EXECUTE FUNCTION {function}()"
)


def enabling(table: QualifiedName, trigger: str, event: str = "") -> sql.Composed:
    """The statement that lets a trigger fire as it should.

    Parameters:
        event: `SUBSCRIBED`, if it is for native subscriptions alone.
    """
    return _enabling(identifier(table), trigger, event)


def _enabling(table: sql.Composable, trigger: str, event: str) -> sql.Composed:
    return sql.SQL("ALTER TABLE {} ENABLE {} TRIGGER {}").format(
        table,
        sql.SQL("REPLICA" if event == SUBSCRIBED else "ALWAYS"),
        sql.Identifier(trigger),
    )


def _mode(event: str) -> str:
    return REPLICA if event == SUBSCRIBED else ALWAYS


def name_of(function: str, event: str) -> str:
    """The name of the trigger that calls a function for a kind of statement."""
    # The kind of record is part of the name: one table can have a log and a queue.
    return f"snaptide_{function.partition('$')[0]}_{event.lower()}"
