"""Lists of the ledger are stored uncompressed: that cost more than all else of them."""

from alembic import op

revision = "0087"
down_revision = "0086"


def upgrade() -> None:
    _store("EXTERNAL")


def downgrade() -> None:
    _store("EXTENDED")


def _store(how: str) -> None:
    lists = ("orders", "started", "transactions", "made")
    each = ", ".join(f"ALTER COLUMN {name} SET STORAGE {how}" for name in lists)
    op.execute(f"ALTER TABLE snaptide.push_batch {each}")
