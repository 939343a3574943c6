"""Triggers that refuse statements on a table, with a message of ours."""

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

#: What a guard lets pass of that which Snaptide does itself: all of it, or nothing.
OURS, NOTHING = sql.SQL("true"), sql.SQL("false")
#: What a refresh merges: no push writes a snapshot.
MERGED = sql.SQL("COALESCE(current_setting('snaptide.writing', true), '') ~ '^[0-9]+$'")

_GUARDED = text(
    "SELECT n.nspname, c.relname FROM pg_trigger t"
    " JOIN pg_class c ON c.oid = t.tgrelid"
    " JOIN pg_namespace n ON n.oid = c.relnamespace"
    " JOIN pg_proc p ON p.oid = t.tgfoid"
    " JOIN pg_namespace f ON f.oid = p.pronamespace"
    " WHERE t.tgname = 'snaptide_guard' AND p.proname = :function"
    " AND f.nspname = :schema"
)


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
    message: str,
    hint: str,
    open_to: sql.Composable = OURS,
    passes: bool = False,
) -> None:
    """Refuse some kinds of statement on a table, with a message of ours.

    Also where they name one of its partitions or inheritance children. Takes the place
    of the guard that the table has.

    Parameters:
        events: of INSERT, UPDATE, DELETE, TRUNCATE.
        open_to: what may pass of that which Snaptide does itself.
        passes: the table is refused for a while only: what a push brings is to wait.
    """
    state = "object_in_use" if passes else "object_not_in_prerequisite_state"
    body = sql.SQL(load("guard_function")).format(
        function=sql.Identifier(SCHEMA, function),
        message=sql.Literal(message),
        hint=sql.Literal(hint),
        open_to=open_to,
        state=sql.Literal(state),
        alone=sql.Literal(open_to is MERGED),
    )
    raw(connection).execute(body)
    guarded = {one for one, _ in tree(connection, table)}
    _set_free(connection, function, guarded)
    for one in sorted(guarded):
        statement = sql.SQL(
            "CREATE OR REPLACE TRIGGER snaptide_guard BEFORE {events} ON {table}"
            " FOR EACH STATEMENT EXECUTE FUNCTION {function}()"
        ).format(
            events=sql.SQL(" OR ").join(sql.SQL(event) for event in events),
            table=identifier(one),
            function=sql.Identifier(SCHEMA, function),
        )
        raw(connection).execute(statement)
        enable_always(connection, one, "snaptide_guard")


def _set_free(
    connection: Connection, function: str, guarded: Collection[QualifiedName]
) -> None:
    """Take the guard from partitions that were detached since they got it."""
    had = {"function": function, "schema": SCHEMA}
    for schema, name in connection.execute(_GUARDED, had).all():
        if QualifiedName(schema, name) not in guarded:
            drop = sql.SQL("DROP TRIGGER snaptide_guard ON {}")
            one = identifier(QualifiedName(schema, name))
            raw(connection).execute(drop.format(one))
