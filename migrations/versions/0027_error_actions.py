"""Adds error actions, and a mark for masters that have not joined their group yet."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    for table in ("queue", "replication_group"):
        op.add_column(
            table,
            sa.Column(
                "error_action",
                sa.Text(),
                server_default=sa.text("'queue'"),
                nullable=False,
            ),
            schema="snaptide",
        )
    op.add_column(
        "group_master",
        sa.Column(
            "joined", sa.Boolean(), server_default=sa.text("true"), nullable=False
        ),
        schema="snaptide",
    )


def downgrade() -> None:
    op.drop_column("group_master", "joined", schema="snaptide")
    for table in ("replication_group", "queue"):
        op.drop_column(table, "error_action", schema="snaptide")
