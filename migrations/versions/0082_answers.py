"""Contracts promise how soon a master answers, and sites keep that promise in view."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0082"
down_revision = "0079"

_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.add_column(
        "contract", sa.Column("answered_within", sa.Interval()), schema="snaptide"
    )
    op.create_table(
        "promise",
        sa.Column("refresh_group", sa.Text(), primary_key=True),
        sa.Column("answered_within", sa.Interval(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False, server_default="kept"),
        sa.Column("since", _MOMENT, nullable=False, server_default=sa.func.now()),
        sa.Column("looked_at", _MOMENT),
        sa.Column("age", sa.Double()),
        sa.Column("waits", sa.BigInteger()),
        sa.Column("waits_since", sa.Double()),
        sa.ForeignKeyConstraint(
            ["refresh_group"], ["snaptide.refresh_group.name"], ondelete="CASCADE"
        ),
        sa.CheckConstraint("state IN ('kept', 'late')", name="state"),
        schema="snaptide",
    )


def downgrade() -> None:
    op.drop_table("promise", schema="snaptide")
    op.drop_column("contract", "answered_within", schema="snaptide")
