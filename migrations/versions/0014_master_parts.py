"""Records which tables held a master's rows at the last refresh of a snapshot.

ATTACH adds a partition with its rows, DETACH and DROP remove one, and no trigger
sees it.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.add_column(
        "snapshot",
        sa.Column("master_parts", postgresql.ARRAY(sa.BigInteger)),
        schema="snaptide",
    )


def downgrade() -> None:
    op.drop_column("snapshot", "master_parts", schema="snaptide")
