"""Checks for tables with our triggers that were renamed, or moved to another schema."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, func, select, text

from sites import QualifiedName
from sites.names import identifier, quoted
from snaptide.doctor.finding import Finding, error


def find(
    connection: Connection, site: str, name: QualifiedName, function: str
) -> Finding | None:
    """The finding that a table has another name or schema now; None if it is gone.

    Parameters:
        name: the one that it had when its changes began to be recorded;
            no table has it now.
        function: the one that its triggers call.
    """
    now = _called(connection, function)
    if now is None:
        return None
    return error(
        site,
        str(name),
        f"The table is called {now} now: its changes are recorded, but pushes and "
        "refreshes stop.",
        f"Give it back its name: {'; '.join(_back(connection, now, name))}",
    )


def _called(connection: Connection, function: str) -> QualifiedName | None:
    """The table whose triggers call a function of ours, by its name of now.

    Of a table with partitions or children it is the topmost. None if there is none.
    """
    row = connection.execute(_CALLED, {"function": function}).one_or_none()
    return None if row is None else QualifiedName(row.nspname, row.relname)


_CALLED = text("""
WITH has AS (
    SELECT DISTINCT g.tgrelid AS oid
    FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid
    WHERE p.proname = :function AND p.pronamespace = 'snaptide'::regnamespace
)
SELECT n.nspname, c.relname
FROM has JOIN pg_class c ON c.oid = has.oid
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE NOT EXISTS (SELECT FROM pg_inherits i JOIN has above ON above.oid = i.inhparent
                  WHERE i.inhrelid = has.oid)
ORDER BY c.oid LIMIT 1
""")


def _back(
    connection: Connection, now: QualifiedName, name: QualifiedName
) -> Iterator[str]:
    """The statements that give a table its former name."""
    schema = quoted(name.schema)
    if now.schema != name.schema:
        if connection.scalar(select(func.to_regnamespace(schema))) is None:
            yield f"CREATE SCHEMA IF NOT EXISTS {schema}"
        yield f"ALTER TABLE {identifier(now).as_string()} SET SCHEMA {schema}"
    if now.name != name.name:
        moved = identifier(QualifiedName(name.schema, now.name)).as_string()
        yield f"ALTER TABLE {moved} RENAME TO {quoted(name.name)}"
