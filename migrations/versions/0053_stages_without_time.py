"""Drops the times of attempts and ranges of a load, which nothing reads."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0053"
down_revision = "0052"

_TABLES = ("stage_attempt", "load_range")


def upgrade() -> None:
    for table in _TABLES:
        op.drop_column(table, "created_at", schema="snaptide")


def downgrade() -> None:
    for table in _TABLES:
        column: sa.Column[object] = sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.func.now()
        )
        op.add_column(table, column, schema="snaptide")
