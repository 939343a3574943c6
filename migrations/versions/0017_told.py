"""Records which parked transactions hooks were told of, after how many tries."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    op.add_column(
        "error_transaction",
        sa.Column("told_at", sa.DateTime(timezone=True), nullable=True),
        schema="snaptide",
    )
    op.add_column(
        "error_transaction",
        sa.Column(
            "tellings", sa.Integer(), server_default=sa.text("0"), nullable=False
        ),
        schema="snaptide",
    )
    # Do not notify of transactions that are parked already.
    op.execute("UPDATE snaptide.error_transaction SET told_at = now()")


def downgrade() -> None:
    for name in ("tellings", "told_at"):
        op.drop_column("error_transaction", name, schema="snaptide")
