"""Adds the columns whose old values a site does not send."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0019"
down_revision = "0018"

_COLUMNS = ("not_sent_at_update", "not_sent_at_delete")


def upgrade() -> None:
    for name in _COLUMNS:
        op.add_column(
            "comparison",
            sa.Column(
                name,
                postgresql.ARRAY(sa.Text()),
                server_default=sa.text("'{}'::text[]"),
                nullable=False,
            ),
            schema="snaptide",
        )


def downgrade() -> None:
    for name in reversed(_COLUMNS):
        op.drop_column("comparison", name, schema="snaptide")
