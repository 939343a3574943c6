"""Rules know which columns they were made for, by number."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0061"
down_revision = "0060"

#: Rules that are there already are taken to name the columns of now.
_NOTE = """
UPDATE snaptide.rules_version
SET columns = (
    SELECT jsonb_object_agg(oid, (
        SELECT jsonb_object_agg(attname, attnum) FROM pg_attribute
        WHERE attrelid = t.oid AND attnum > 0 AND NOT attisdropped))
    FROM (
        SELECT to_regclass(format('%I.%I', table_schema, table_name))::oid AS oid
        FROM (SELECT table_schema, table_name FROM snaptide.column_group
              UNION SELECT table_schema, table_name FROM snaptide.resolution_rule
              UNION SELECT table_schema, table_name FROM snaptide.comparison) r
    ) t
    WHERE oid IS NOT NULL)
WHERE id = (SELECT max(id) FROM snaptide.rules_version)
"""


def upgrade() -> None:
    op.add_column("rules_version", sa.Column("columns", JSONB()), schema="snaptide")
    op.execute(_NOTE)


def downgrade() -> None:
    op.drop_column("rules_version", "columns", schema="snaptide")
