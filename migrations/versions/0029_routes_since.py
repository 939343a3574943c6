"""Records the position from which a route sends changes to another master."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from sites.types import PgSnapshot

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    op.add_column(
        "route",
        sa.Column(
            "since", PgSnapshot(), server_default=sa.text("'1:1:'"), nullable=False
        ),
        schema="snaptide",
    )


def downgrade() -> None:
    op.drop_column("route", "since", schema="snaptide")
