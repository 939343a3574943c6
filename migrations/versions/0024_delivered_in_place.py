"""Leaves room in each page of `delivery` to mark its rows as delivered."""

from __future__ import annotations

from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    op.execute("ALTER TABLE snaptide.delivery SET (fillfactor = 50)")


def downgrade() -> None:
    op.execute("ALTER TABLE snaptide.delivery RESET (fillfactor)")
