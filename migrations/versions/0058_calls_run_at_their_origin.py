"""A parked call knows whether the site that made it ran the procedure too."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0058"
down_revision = "0057"


def upgrade() -> None:
    # Nobody knows it of calls that are parked already; true is how they were treated.
    op.add_column(
        "error_procedure",
        sa.Column("ran_here", sa.Boolean(), nullable=False, server_default=sa.true()),
        schema="snaptide",
    )
    op.alter_column(
        "error_procedure", "ran_here", server_default=None, schema="snaptide"
    )


def downgrade() -> None:
    op.drop_column("error_procedure", "ran_here", schema="snaptide")
