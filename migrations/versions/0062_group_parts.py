"""Masters of a group know which partitions its tables have."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0062"
down_revision = "0061"

#: The partitions that are there are taken to hold the same rows at all masters.
_NOTE = """
WITH RECURSIVE part AS (
    SELECT g.table_schema, g.table_name, c.oid, '' AS attached
    FROM snaptide.group_schema g
    JOIN pg_namespace n ON n.nspname = g.table_schema
    JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = g.table_name
  UNION ALL
    SELECT p.table_schema, p.table_name, i.inhrelid, i.xmin::text
    FROM part p JOIN pg_inherits i ON i.inhparent = p.oid AND NOT i.inhdetachpending
)
UPDATE snaptide.group_schema g
SET parts = (
    SELECT jsonb_object_agg(p.oid, p.attached) FROM part p
    WHERE (p.table_schema, p.table_name) = (g.table_schema, g.table_name))
"""


def upgrade() -> None:
    op.add_column("group_schema", sa.Column("parts", JSONB()), schema="snaptide")
    op.execute(_NOTE)


def downgrade() -> None:
    op.drop_column("group_schema", "parts", schema="snaptide")
