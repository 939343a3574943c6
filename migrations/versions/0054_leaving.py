"""What becomes of rows that leave the condition of a snapshot."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0054"
down_revision = "0053"

_POLICIES = "leaving IN ('drain', 'keep', 'freeze', 'park')"


def upgrade() -> None:
    column: sa.Column[str] = sa.Column(
        "leaving", sa.Text, nullable=False, server_default="drain"
    )
    op.add_column("snapshot", column, schema="snaptide")
    op.create_check_constraint("leaving", "snapshot", _POLICIES, schema="snaptide")


def downgrade() -> None:
    op.drop_column("snapshot", "leaving", schema="snaptide")
