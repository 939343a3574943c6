"""Finding tables whose changes no snapshot log can record in full."""

from __future__ import annotations

from sqlalchemy import Connection, text

from sites import QualifiedName
from sites.tables import references
from sites.tables.table import Table

#: A table, its partitions and children, and what is wrong with one of them.
_PARTS = text(
    """
    WITH RECURSIVE tree AS (
        SELECT CAST(:oid AS oid) AS oid
      UNION
        SELECT i.inhrelid FROM pg_inherits i JOIN tree t ON t.oid = i.inhparent
    )
    SELECT n.nspname AS schema, c.relname AS name,
           c.relpersistence AS persistence, s.schema AS of_schema, s.name AS of_name
    FROM tree t
    JOIN pg_class c ON c.oid = t.oid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN snaptide.snapshot s ON s.schema = n.nspname AND s.base_table = c.relname
    WHERE c.relpersistence <> 'p' OR s.name IS NOT NULL
    ORDER BY s.name, n.nspname, c.relname
    LIMIT 1
    """
)

#: Of a table, its partitions and children, one that is a part of another table, too.
_OUTSIDE = text(
    """
    WITH RECURSIVE tree AS (
        SELECT CAST(:oid AS oid) AS oid
      UNION
        SELECT i.inhrelid FROM pg_inherits i JOIN tree t ON t.oid = i.inhparent
    )
    SELECT n.nspname AS schema, c.relname AS name,
           m.nspname AS above_schema, p.relname AS above_name
    FROM tree t
    JOIN pg_inherits i ON i.inhrelid = t.oid
    JOIN pg_class c ON c.oid = t.oid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_class p ON p.oid = i.inhparent
    JOIN pg_namespace m ON m.oid = p.relnamespace
    WHERE i.inhparent NOT IN (SELECT oid FROM tree)
    ORDER BY n.nspname, c.relname, m.nspname, p.relname
    LIMIT 1
    """
)


def why_unloggable(connection: Connection, table: Table) -> str | None:
    """Why the changes of a table cannot be recorded; None if they can.

    A base table of a snapshot cannot have a log: refreshes and pushes write it, and
    they bring changes of other sites. Changes that a lower tier of snapshots pushed
    there would go no further, without an error.
    """
    found = connection.execute(_PARTS, {"oid": table.oid}).one_or_none()
    if found is None:
        return why_unnoticed(connection, table) or _why_unequal(connection, table)
    part = QualifiedName(found.schema, found.name)
    if found.of_name is not None:
        snapshot = QualifiedName(found.of_schema, found.of_name)
        return (
            f"{part} is the base table of snapshot {snapshot}: changes sent there "
            "would not reach its master"
        )
    kind = "UNLOGGED" if found.persistence == "u" else "TEMPORARY"
    return (
        f"{part} is {kind}: a crash of the server would remove its rows without a "
        "record"
    )


def _why_unequal(connection: Connection, table: Table) -> str | None:
    """Why equal values of keys may differ; None if they do not.

    A change of one spelling would not be known to concern the row of another.
    """
    keys = [one.columns for one in table.uniques]
    keys += [one.columns for one in table.foreign_keys]
    compared = references.referred(connection, table).union(*keys)
    for column in table.columns:
        if not column.deterministic and column.name in compared:
            return (
                f"Column {column.name} of {table.qualified} belongs to a key, a unique "
                "value or a foreign key, and its collation is not deterministic: it "
                "treats different texts as equal"
            )
    return None


def why_unnoticed(connection: Connection, table: Table) -> str | None:
    """Why some statements change rows of a table unnoticed; None if there are none.

    A statement on a table fires the triggers of that table, not those of the partition
    or child whose rows it changes.
    """
    found = connection.execute(_OUTSIDE, {"oid": table.oid}).one_or_none()
    if found is None:
        return None
    part = QualifiedName(found.schema, found.name)
    above = QualifiedName(found.above_schema, found.above_name)
    return (
        f"{part} is a partition or child of {above}: statements on {above} change its "
        "rows without a record"
    )
