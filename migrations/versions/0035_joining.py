"""Makes pushes to a master wait while it joins a group, apart from other pauses."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "0035"
down_revision = "0034"


def upgrade() -> None:
    op.add_column(
        "destination",
        sa.Column(
            "joins", ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False
        ),
        schema="snaptide",
    )
    op.execute(
        "UPDATE snaptide.destination SET disabled = false, joins = found.groups"
        " FROM (SELECT master, array_agg(group_name) AS groups"
        " FROM snaptide.group_master WHERE NOT joined GROUP BY master) found"
        " WHERE name = found.master"
    )


def downgrade() -> None:
    op.execute(
        "UPDATE snaptide.destination SET disabled = true WHERE cardinality(joins) > 0"
    )
    op.drop_column("destination", "joins", schema="snaptide")
