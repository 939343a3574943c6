"""Records the rate of running work."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    op.add_column("activity", sa.Column("rate", sa.Double()), schema="snaptide")


def downgrade() -> None:
    op.drop_column("activity", "rate", schema="snaptide")
