"""Checks that the triggers which refuse statements of users exist, and are always on.

While one was off, rows may have changed that only Snaptide writes: no log or queue has
these changes, and a fast refresh never looks at the rows again.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, text

from sites import names
from snaptide.doctor.finding import Finding, error, warning

#: Each guarded table with all its partitions and inheritance children, where a trigger
#: of its guard is missing or not always on.
_OPEN = text(
    """
    WITH RECURSIVE tree AS (
        SELECT g.tgrelid AS oid, g.oid AS guard
        FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid
        WHERE p.pronamespace = 'snaptide'::regnamespace
          AND g.tgname IN ('snaptide_guard', 'snaptide_guard_effects')
      UNION
        SELECT i.inhrelid, t.guard FROM tree t JOIN pg_inherits i ON i.inhparent = t.oid
    )
    SELECT DISTINCT n.nspname AS schema, c.relname AS name, g.tgname AS trigger,
           p.proname AS function, h.tgenabled::text AS enabled,
           CASE WHEN g.tgtype & 2 > 0 THEN 'BEFORE' ELSE 'AFTER' END AS time,
           array_to_string(ARRAY(
               SELECT kind FROM unnest(ARRAY['INSERT', 'UPDATE', 'DELETE', 'TRUNCATE'],
                                       ARRAY[4, 16, 8, 32]) k(kind, bit)
               WHERE g.tgtype & bit > 0
           ), ' OR ') AS kinds
    FROM tree t
    JOIN pg_trigger g ON g.oid = t.guard
    JOIN pg_proc p ON p.oid = g.tgfoid
    JOIN pg_class c ON c.oid = t.oid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_trigger h
      ON h.tgrelid = t.oid AND h.tgname = g.tgname AND h.tgfoid = g.tgfoid
    WHERE h.tgenabled IS DISTINCT FROM 'A'
    ORDER BY 1, 2, 3
    """
)

#: Foreign keys that change rows of read-only snapshots, as users have made them: a
#: refresh of the parent is the statement that they act for, so no guard refuses it.
_ACTING = text(
    """
    SELECT s.schema, s.name, s.base_table,
           string_agg(c.conname, ', ' ORDER BY c.conname) AS keys
    FROM snaptide.snapshot s
    JOIN pg_namespace n ON n.nspname = s.schema
    JOIN pg_class b ON b.relnamespace = n.oid AND b.relname = s.base_table
    JOIN pg_constraint c ON c.conrelid = b.oid AND c.contype = 'f'
    WHERE NOT s.updatable
      AND (c.confdeltype IN ('c', 'n', 'd') OR c.confupdtype IN ('c', 'n', 'd'))
    GROUP BY s.schema, s.name
    ORDER BY s.schema, s.name
    """
)


def check(connection: Connection, site: str) -> Iterator[Finding]:
    """Findings about tables that users can change though they should not."""
    yield from _open(connection, site)
    yield from _acting(connection, site)


def _open(connection: Connection, site: str) -> Iterator[Finding]:
    for row in connection.execute(_OPEN):
        table = f"{names.quoted(row.schema)}.{names.quoted(row.name)}"
        turn_on = f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {row.trigger}"
        create = (
            f"CREATE TRIGGER {row.trigger} {row.time} {row.kinds} ON {table} FOR EACH"
            f" STATEMENT EXECUTE FUNCTION snaptide.{names.quoted(row.function)}(); "
        )
        state = {None: "missing", "D": "disabled"}.get(row.enabled, "not always on")
        yield error(
            site,
            str(names.QualifiedName(row.schema, row.name)),
            f"Trigger {row.trigger} is {state}: users can change rows that only "
            "Snaptide may write, and no refresh or push sees it.",
            ("" if row.enabled else create) + turn_on + f"; then {compare(site)}",
        )


def _acting(connection: Connection, site: str) -> Iterator[Finding]:
    for row in connection.execute(_ACTING):
        base = f"{names.quoted(row.schema)}.{names.quoted(row.base_table)}"
        yield warning(
            site,
            str(names.QualifiedName(row.schema, row.name)),
            f"Foreign key {row.keys} of {base} changes rows of this read-only "
            "snapshot when their parents go or change, and no fast refresh sees it.",
            "Make it NO ACTION, or drop it; then run: snaptide refresh "
            f"{site} {names.QualifiedName(row.schema, row.name)} --method c",
        )


def compare(site: str) -> str:
    """How to find what changed while a trigger was off, and no log or queue has."""
    return (
        f"compare its rows: snaptide check {site}, or snaptide group check for a table "
        "of a group"
    )
