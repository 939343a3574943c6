"""Which tables held the rows of a master at the last refresh of a snapshot.

Partitions come with rows by ATTACH and go with them by DETACH and DROP, and no
trigger sees it.
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
