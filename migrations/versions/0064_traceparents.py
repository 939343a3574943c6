"""Each batch carries the trace of the push that cut it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0064"
down_revision = "0063"

_TABLES = ("destination", "push_batch")


def upgrade() -> None:
    for table in _TABLES:
        op.add_column(table, sa.Column("traceparent", sa.Text()), schema="snaptide")


def downgrade() -> None:
    for table in _TABLES:
        op.drop_column(table, "traceparent", schema="snaptide")
