"""What operators do in the console is noted at the site where they do it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0059"
down_revision = "0058"


def upgrade() -> None:
    op.create_table(
        "operator_action",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column(
            "begun_at",
            sa.DateTime(timezone=True),
            nullable=False,
            server_default=sa.func.clock_timestamp(),
        ),
        sa.Column("operator", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("command", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text()),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("id", name="operator_action_pkey"),
        schema="snaptide",
    )
    op.create_index(
        "operator_action_begun_at_idx",
        "operator_action",
        ["begun_at"],
        schema="snaptide",
    )


def downgrade() -> None:
    op.drop_table("operator_action", schema="snaptide")
