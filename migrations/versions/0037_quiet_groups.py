"""Lets a group be quiet at a master while others go on."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"

_REASON = "error_transaction_reason_check"


def upgrade() -> None:
    op.create_table(
        "quiet_group",
        sa.Column("group_id", sa.Uuid(), nullable=False),
        sa.Column("quiet_by", sa.Text(), nullable=False),
        sa.Column(
            "since",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("why", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("group_id", name=op.f("quiet_group_pkey")),
        schema="snaptide",
    )
    _allow("reason IN ('conflict', 'error', 'dependant', 'quiet')")


def downgrade() -> None:
    op.execute(
        "UPDATE snaptide.error_transaction SET reason = 'error' WHERE reason = 'quiet'"
    )
    _allow("reason IN ('conflict', 'error', 'dependant')")
    op.drop_table("quiet_group", schema="snaptide")


def _allow(reasons: str) -> None:
    op.drop_constraint(op.f(_REASON), "error_transaction", schema="snaptide")
    op.create_check_constraint(
        op.f(_REASON), "error_transaction", reasons, schema="snaptide"
    )
