"""A snapshot that cannot be refreshed stays behind its group, at its own moment."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from sites.transfer.types import PgSnapshot

revision = "0072"
down_revision = "0071"

# A program of before takes the group's moment for that of such a snapshot, and has to
# compare all its rows.
_FORGET = """
UPDATE snaptide.snapshot
SET master_parts = NULL, master_files = NULL, master_columns = NULL, parents = NULL
WHERE behind IS NOT NULL
"""


def upgrade() -> None:
    op.add_column("snapshot", sa.Column("behind", JSONB()), schema="snaptide")
    position = sa.Column("position", PgSnapshot())
    op.add_column("snapshot", position, schema="snaptide")


def downgrade() -> None:
    op.execute(_FORGET)
    op.drop_column("snapshot", "position", schema="snaptide")
    op.drop_column("snapshot", "behind", schema="snaptide")
