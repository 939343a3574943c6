"""Names replication groups by their ids in all tables, as a new group may have the
name of a former one.

Functions of queues and guards are replaced after each upgrade.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.types import TypeEngine

revision = "0052"
down_revision = "0051"

_PARTS = {
    "group_master": ["master"],
    "group_table": ["table_schema", "table_name"],
    "group_path": ["source", "to_master"],
}
_OTHERS = {
    "arrival": ["source", "sender"],
    "former_sender": ["sender"],
    "second_way": ["origin"],
    "taken_transaction": ["origin", "transaction", "made_at", "target", "part"],
}

_FILL = """
UPDATE snaptide.{table} t SET {new} = g.{to}
FROM snaptide.replication_group g WHERE g.{by} = t.{before}
"""
#: A site with snapshots of a group watches for its transactions without being a master.
_WATCHED = """
INSERT INTO snaptide.second_way
    (group_id, origin, first_no, end_no, alone, whole, known_from)
SELECT s.schema_group, w.origin, min(first_no), max(end_no),
       bool_and(alone AND one.group_only), bool_and(whole AND one.group_only),
       max(known_from)
FROM snaptide.second_way w, snaptide.snapshot s, (
    SELECT count(DISTINCT schema_group) = 1 AS group_only FROM snaptide.snapshot) one
WHERE w.group_id IS NULL AND s.schema_group IS NOT NULL
GROUP BY s.schema_group, w.origin
"""
#: The next upgrade finds its id again.
_WATCHED_BEFORE = """
UPDATE snaptide.second_way SET replication_group = group_id::text
WHERE replication_group IS NULL
"""
_GONE = "DELETE FROM snaptide.{table} WHERE {new} IS NULL"

#: Replaces the names of groups by their ids, or the ids by the names, in sources.
_SOURCES = """
UPDATE snaptide.{table} t SET sources = (
    SELECT jsonb_object_agg(COALESCE(g.{to}::text, s.key), s.value)
    FROM jsonb_each(t.sources) s
    LEFT JOIN snaptide.replication_group g ON g.{by}::text = s.key)
WHERE t.sources <> '{{}}'
"""


def upgrade() -> None:
    for table in _PARTS:
        op.drop_constraint(f"{table}_group_name_fkey", table, schema="snaptide")
    _change("name", "id", sa.Uuid(), "group_id")
    _head("id", "name")
    for table in _PARTS:
        _belongs(table, "group_id", "id")


def downgrade() -> None:
    for table in _PARTS:
        op.drop_constraint(f"{table}_group_id_fkey", table, schema="snaptide")
    _change("id", "name", sa.Text(), None)
    _head("name", None)
    for table in _PARTS:
        _belongs(table, "group_name", "name")


def _change(by: str, to: str, kind: TypeEngine[Any], name: str | None) -> None:
    """Let all tables name a group in the other way.

    Parameters:
        name: of the new columns; None for those that they had before.
    """
    for table, key in (_PARTS | _OTHERS | {"queue": []}).items():
        plain = "group_name" if table in _PARTS else "replication_group"
        before, new = (plain, name) if name else ("group_id", plain)
        op.add_column(table, sa.Column(new, kind), schema="snaptide")
        op.execute(_FILL.format(table=table, new=new, to=to, by=by, before=before))
        if table == "second_way" and not name:
            op.execute(_WATCHED_BEFORE)
        op.drop_column(table, before, schema="snaptide")
        if table == "second_way" and name:
            op.execute(_WATCHED)
        if key:
            op.execute(_GONE.format(table=table, new=new))
            op.alter_column(table, new, nullable=False, schema="snaptide")
            op.create_primary_key(
                f"{table}_pkey", table, [new, *key], schema="snaptide"
            )
    for table in ("deferred_transaction", "error_transaction"):
        op.execute(_SOURCES.format(table=table, by=by, to=to))


def _head(key: str, unique: str | None) -> None:
    table = "replication_group"
    if unique is None:
        op.drop_constraint(f"{table}_name_key", table, schema="snaptide")
    op.drop_constraint(f"{table}_pkey", table, schema="snaptide")
    op.create_primary_key(f"{table}_pkey", table, [key], schema="snaptide")
    if unique is not None:
        op.create_unique_constraint(
            f"{table}_{unique}_key", table, [unique], schema="snaptide"
        )


def _belongs(table: str, column: str, to: str) -> None:
    op.create_foreign_key(
        f"{table}_{column}_fkey",
        table,
        "replication_group",
        [column],
        [to],
        ondelete="CASCADE",
        source_schema="snaptide",
        referent_schema="snaptide",
    )
