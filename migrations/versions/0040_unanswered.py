"""Records when beat last looked at a site, and which runs no worker has done yet."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0039"


def upgrade() -> None:
    op.add_column(
        "schedule",
        sa.Column("asked_at", sa.DateTime(timezone=True)),
        schema="snaptide",
    )
    op.create_table(
        "beat",
        sa.Column("one_row", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("looked_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("one_row = 1", name=op.f("beat_one_row_check")),
        sa.PrimaryKeyConstraint("one_row", name=op.f("beat_pkey")),
        schema="snaptide",
    )


def downgrade() -> None:
    op.drop_table("beat", schema="snaptide")
    op.drop_column("schedule", "asked_at", schema="snaptide")
