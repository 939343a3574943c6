"""Stores the ledger's transaction numbers and times uncompressed, as in 0030."""

from __future__ import annotations

from alembic import op

revision = "0032"
down_revision = "0031"

_COLUMNS = ("transactions", "made")


def upgrade() -> None:
    _store("EXTERNAL")


def downgrade() -> None:
    _store("EXTENDED")


def _store(how: str) -> None:
    for column in _COLUMNS:
        op.execute(
            f"ALTER TABLE snaptide.push_batch ALTER COLUMN {column} SET STORAGE {how}"
        )
