"""Adds the masters that a group has forgotten, whose pushes are refused."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"


def upgrade() -> None:
    op.create_table(
        "former_sender",
        sa.Column("replication_group", sa.Text(), nullable=False),
        sa.Column("sender", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint(
            "replication_group", "sender", name=op.f("former_sender_pkey")
        ),
        schema="snaptide",
    )


def downgrade() -> None:
    op.drop_table("former_sender", schema="snaptide")
