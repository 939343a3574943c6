"""A refresh group notes at which moment of its master a refresh found nothing new."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from sites.transfer.types import PgSnapshot

revision = "0079"
down_revision = "0074"


def upgrade() -> None:
    op.add_column(
        "refresh_group", sa.Column("unchanged_at", PgSnapshot()), schema="snaptide"
    )


def downgrade() -> None:
    op.drop_column("refresh_group", "unchanged_at", schema="snaptide")
