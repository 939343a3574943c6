"""Triggers that refuse statements on a table, with a message of ours.

What a trigger of a user does in answer to Snaptide is told apart after its statement:
before it, what a foreign key does is as deep.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from psycopg import sql
from sqlalchemy import Connection, text

from sites.catalog import SCHEMA
from sites.names import QualifiedName, identifier
from sites.sql import load
from sites.table import Table
from sites.transport import raw
from sites.triggers import enable_always, tree

#: All kinds of statement that change rows.
ALL = ("INSERT", "UPDATE", "DELETE", "TRUNCATE")

#: What a guard lets pass of that which Snaptide does itself: all of it, or nothing.
OURS, NOTHING = sql.SQL("true"), sql.SQL("false")
#: What a refresh merges: no push writes a snapshot.
MERGED = sql.SQL("COALESCE(current_setting('snaptide.writing', true), '') ~ '^[0-9]+$'")

#: The triggers of a guard, with their kinds of statement as the catalog has them.
_THERE = text(
    "SELECT n.nspname, c.relname, t.tgname,"
    " CASE WHEN t.tgenabled = 'A' THEN t.tgtype END AS kinds"
    " FROM pg_trigger t"
    " JOIN pg_class c ON c.oid = t.tgrelid"
    " JOIN pg_namespace n ON n.oid = c.relnamespace"
    " JOIN pg_proc p ON p.oid = t.tgfoid"
    " JOIN pg_namespace f ON f.oid = p.pronamespace"
    " WHERE p.proname = :function AND f.nspname = :schema"
)
_KINDS = {"BEFORE": 2, "INSERT": 4, "DELETE": 8, "UPDATE": 16, "TRUNCATE": 32}

#: What refuses statements, and what refuses those of users' triggers.
_TIMES = {"snaptide_guard": "BEFORE", "snaptide_guard_effects": "AFTER"}


def brought_by_masters(group: str) -> sql.Composable:
    """Lets pass what pushes of the masters of a group bring, and nothing else."""
    setting = "NULLIF(current_setting('snaptide.transaction', true), '')::jsonb"
    return sql.SQL("COALESCE({} -> 'sources' ? {}, false)").format(
        sql.SQL(setting), sql.Literal(group)
    )


def install(
    connection: Connection,
    table: Table,
    function: str,
    *,
    events: Sequence[str],
    unrecorded: Collection[str] = (),
    message: str,
    hint: str,
    open_to: sql.Composable = OURS,
    passes: bool = False,
) -> None:
    """Refuse some kinds of statement on a table, with a message of ours.

    Also where they name one of its partitions or inheritance children. Takes the place
    of the guard that the table has, and locks it only where other kinds are refused.

    Parameters:
        events: of INSERT, UPDATE, DELETE, TRUNCATE.
        unrecorded: those of them that nobody records: triggers of users may not do
            them because of what Snaptide writes.
        open_to: what may pass of that which Snaptide does itself.
        passes: the table is refused for a while only: what a push brings is to wait.
    """
    body = sql.SQL(load("guard_function")).format(
        function=sql.Identifier(SCHEMA, function),
        message=sql.Literal(message),
        hint=sql.Literal(hint),
        open_to=open_to,
        passes=sql.Literal(passes),
    )
    raw(connection).execute(body)
    wanted = {
        (one, trigger): tuple(kinds)
        for one, _ in tree(connection, table)
        for trigger, kinds in zip(_TIMES, (events, unrecorded), strict=True)
        if kinds
    }
    there = _there(connection, function)
    for one, trigger in there.keys() - wanted.keys():
        drop = sql.SQL("DROP TRIGGER {} ON {}")
        raw(connection).execute(drop.format(sql.Identifier(trigger), identifier(one)))
    for (one, trigger), kinds in sorted(wanted.items()):
        if there.get((one, trigger)) != _number(trigger, kinds):
            _create(connection, one, trigger, kinds, function)


def _there(
    connection: Connection, function: str
) -> dict[tuple[QualifiedName, str], int | None]:
    """The triggers of a guard, also on partitions that were detached meanwhile."""
    rows = connection.execute(_THERE, {"function": function, "schema": SCHEMA})
    return {
        (QualifiedName(schema, name), trigger): kinds
        for schema, name, trigger, kinds in rows
    }


def _number(trigger: str, events: Collection[str]) -> int:
    return sum(_KINDS[event] for event in events) + _KINDS.get(_TIMES[trigger], 0)


def _create(
    connection: Connection,
    table: QualifiedName,
    trigger: str,
    events: Collection[str],
    function: str,
) -> None:
    statement = sql.SQL(
        "CREATE OR REPLACE TRIGGER {trigger} {time} {events} ON {table}"
        " FOR EACH STATEMENT EXECUTE FUNCTION {function}()"
    ).format(
        trigger=sql.Identifier(trigger),
        time=sql.SQL(_TIMES[trigger]),
        events=sql.SQL(" OR ").join(sql.SQL(event) for event in events),
        table=identifier(table),
        function=sql.Identifier(SCHEMA, function),
    )
    raw(connection).execute(statement)
    enable_always(connection, table, trigger)
