"""Triggers that refuse statements on a table, with a message of ours.

Statements of users' triggers that fire for Snaptide's writes are refused only by an
AFTER trigger: before a statement, the trigger depth of one that a foreign key runs is
the same.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from psycopg import sql
from sqlalchemy import Connection, text

from sites.capture.triggers import CASCADE, enabling, kept_to_owner, run, tree
from sites.catalog import SCHEMA
from sites.names import QualifiedName, identifier
from sites.sessions.exchange import raw
from sites.sql import load
from sites.tables.table import Table

#: All kinds of statement that change rows.
ALL = ("INSERT", "UPDATE", "DELETE", "TRUNCATE")

#: Conditions on Snaptide's own statements that a guard lets pass: all, or none.
OURS, NOTHING = sql.SQL("true"), sql.SQL("false")
#: Lets pass the merge of a refresh, but no push to a snapshot.
MERGED = sql.SQL("COALESCE(current_setting('snaptide.writing', true), '') ~ '^[0-9]+$'")

#: Existing triggers of a guard, with their kinds of statement as the catalog's bits.
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

#: The trigger that refuses statements, and the one that refuses those of users'
#: triggers.
_TIMES = {"snaptide_guard": "BEFORE", "snaptide_guard_effects": "AFTER"}


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

    Statements on its partitions or inheritance children are refused, too. Replaces an
    earlier guard of the table, and locks the table only if it refused other kinds.

    Parameters:
        events: the kinds to refuse, of INSERT, UPDATE, DELETE, TRUNCATE.
        unrecorded: kinds that no trigger records, so that users' triggers that fire
            for Snaptide's writes may not run them.
        open_to: condition on Snaptide's own statements that pass.
        passes: the guard is temporary, so that changes of a push are to wait.
    """
    body = sql.SQL(load("guard_function")).format(
        function=sql.Identifier(SCHEMA, function),
        name=sql.Literal(function),
        message=sql.Literal(message),
        hint=sql.Literal(hint),
        open_to=open_to,
        cascade=CASCADE,
        passes=sql.Literal(passes),
    )
    run(connection, body, *kept_to_owner(connection, table.oid, function))
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
    """The existing triggers of a guard, also on partitions detached since."""
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
    run(connection, statement, enabling(table, trigger))
