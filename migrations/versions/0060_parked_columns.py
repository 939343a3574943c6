"""A parked transaction knows which columns of its tables its calls are for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0060"
down_revision = "0059"


def upgrade() -> None:
    op.add_column(
        "error_transaction", sa.Column("target_columns", JSONB()), schema="snaptide"
    )


def downgrade() -> None:
    op.drop_column("error_transaction", "target_columns", schema="snaptide")
