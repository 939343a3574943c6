"""Identifies queued columns by their numbers, because users can rename columns.

The base table of a snapshot has the snapshot's columns in their order. For other
tables, the upgrade looks the names up once; 0 stands for a column that is missing.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0042"
down_revision = "0041"


def upgrade() -> None:
    numbers: sa.Column[Any] = sa.Column(
        "column_numbers", postgresql.ARRAY(sa.SmallInteger)
    )
    op.add_column("queue", numbers, schema="snaptide")
    op.execute(
        """
        UPDATE snaptide.queue q SET column_numbers = ARRAY(
            SELECT COALESCE(array_position(s.columns, c.name), a.attnum, 0)
            FROM unnest(q.columns) WITH ORDINALITY AS c (name, place)
            LEFT JOIN snaptide.snapshot s
              ON s.schema = q.base_schema AND s.base_table = q.base_table
            LEFT JOIN pg_namespace n ON n.nspname = q.base_schema
            LEFT JOIN pg_class t ON t.relnamespace = n.oid AND t.relname = q.base_table
            LEFT JOIN pg_attribute a ON a.attrelid = t.oid AND a.attname = c.name
            ORDER BY c.place)
        """
    )
    op.alter_column("queue", "column_numbers", nullable=False, schema="snaptide")


def downgrade() -> None:
    op.drop_column("queue", "column_numbers", schema="snaptide")
