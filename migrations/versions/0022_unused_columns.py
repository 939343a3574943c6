"""Drops two columns of snapshots that were never used."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    op.drop_column("snapshot", "must_complete", schema="snaptide")
    op.drop_column("snapshot", "method", schema="snaptide")


def downgrade() -> None:
    method = sa.Column("method", sa.Text(), server_default="?", nullable=False)
    must_complete: sa.Column[bool] = sa.Column(
        "must_complete",
        sa.Boolean(),
        server_default=sa.text("false"),
        nullable=False,
    )
    for column in (method, must_complete):
        op.add_column("snapshot", column, schema="snaptide")
