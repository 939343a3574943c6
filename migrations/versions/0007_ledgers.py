"""Creates the ledgers of Spark tasks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.create_table(
        "stage_attempt",
        sa.Column("load_id", sa.Uuid(), nullable=False),
        sa.Column("attempt", sa.Text(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=True,
        ),
        sa.PrimaryKeyConstraint("load_id", "attempt", name=op.f("stage_attempt_pkey")),
        schema="snaptide",
    )
    op.create_table(
        "load_range",
        sa.Column("load_id", sa.Uuid(), nullable=False),
        sa.Column("range_no", sa.Integer(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=True,
        ),
        sa.PrimaryKeyConstraint("load_id", "range_no", name=op.f("load_range_pkey")),
        schema="snaptide",
    )


def downgrade() -> None:
    op.drop_table("load_range", schema="snaptide")
    op.drop_table("stage_attempt", schema="snaptide")
