"""Snapshots whose conditions ask other tables: their logs, and facts about them.

Registrations name tables instead of one log, so that several logs may serve one.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0051"
down_revision = "0050"

_LOG_ID_AGAIN = """
UPDATE snaptide.registered_snapshot r SET log_id = l.id FROM snaptide.snapshot_log l
WHERE (l.table_schema, l.table_name) = (r.table_schema, r.table_name)
"""


def upgrade() -> None:
    names = postgresql.ARRAY(sa.Text)
    op.add_column(
        "registered_snapshot",
        sa.Column("parents", names, nullable=False, server_default="{}"),
        schema="snaptide",
    )
    op.drop_column("registered_snapshot", "log_id", schema="snaptide")
    seen = sa.Column("parents", postgresql.JSONB())
    op.add_column("snapshot", seen, schema="snaptide")


def downgrade() -> None:
    op.drop_column("snapshot", "parents", schema="snaptide")
    log_id = sa.Column(
        "log_id",
        sa.Integer,
        sa.ForeignKey("snaptide.snapshot_log.id", ondelete="SET NULL"),
        index=True,
    )
    op.add_column("registered_snapshot", log_id, schema="snaptide")
    op.execute(_LOG_ID_AGAIN)
    op.drop_column("registered_snapshot", "parents", schema="snaptide")
