"""A site remembers which purged transactions a destination had by another way."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0066"
down_revision = "0065"


def upgrade() -> None:
    op.add_column(
        "destination", sa.Column("purged_settled", sa.BigInteger()), schema="snaptide"
    )


def downgrade() -> None:
    op.drop_column("destination", "purged_settled", schema="snaptide")
