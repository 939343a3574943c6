"""Records which call of a transaction a resolution was about."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.add_column(
        "resolution_record",
        sa.Column("call_no", sa.BigInteger(), nullable=True),
        schema="snaptide",
    )


def downgrade() -> None:
    op.drop_column("resolution_record", "call_no", schema="snaptide")
