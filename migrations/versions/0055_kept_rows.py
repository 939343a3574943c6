"""What leaves a snapshot and is kept: its rows, or changes of them that go nowhere.

Such a change stands in the error queue of its own site.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from sites.types import PgSnapshot

revision = "0055"
down_revision = "0054"

_REASON = "error_transaction_reason_check"


def upgrade() -> None:
    op.create_table(
        "kept_row",
        sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
        sa.Column("snapshot", sa.Text, nullable=False),
        sa.Column("key", postgresql.ARRAY(sa.Text), nullable=False),
        sa.Column("values", sa.JSON, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("position", PgSnapshot, nullable=False),
        sa.Column(
            "left_at",
            sa.DateTime(timezone=True),
            nullable=False,
            server_default=sa.func.now(),
        ),
        sa.UniqueConstraint("snapshot", "key"),
        schema="snaptide",
    )
    _allow("reason IN ('conflict', 'error', 'dependant', 'quiet', 'withdrawn')")


def downgrade() -> None:
    _allow("reason IN ('conflict', 'error', 'dependant', 'quiet')")
    op.drop_table("kept_row", schema="snaptide")


def _allow(reasons: str) -> None:
    op.drop_constraint(op.f(_REASON), "error_transaction", schema="snaptide")
    op.create_check_constraint(
        op.f(_REASON), "error_transaction", reasons, schema="snaptide"
    )
