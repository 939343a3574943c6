"""The columns of a snapshot may have other numbers than their places."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "0070"
down_revision = "0069"


def upgrade() -> None:
    numbers = sa.Column("column_numbers", ARRAY(sa.SmallInteger()))
    op.add_column("snapshot", numbers, schema="snaptide")


def downgrade() -> None:
    op.drop_column("snapshot", "column_numbers", schema="snaptide")
