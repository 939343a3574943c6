"""Saved checks say which groups and columns they could not compare."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

revision = "0067"
down_revision = "0066"


def upgrade() -> None:
    nobody = sa.text("'{}'::jsonb")
    away = sa.Column("away", JSONB(), nullable=False, server_default=nobody)
    op.add_column("check_run", away, schema="snaptide")
    none = sa.text("'{}'::text[]")
    op.add_column(
        "check_snapshot",
        sa.Column("not_carried", ARRAY(sa.Text()), nullable=False, server_default=none),
        schema="snaptide",
    )


def downgrade() -> None:
    op.drop_column("check_snapshot", "not_carried", schema="snaptide")
    op.drop_column("check_run", "away", schema="snaptide")
