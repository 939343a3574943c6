"""Adds the triggers that order transactions at commit and wake the pusher."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.execute(
        sa.schema.CreateSequence(
            sa.Sequence(
                "order_no", schema="snaptide", data_type=sa.BigInteger(), cache=1
            )
        )
    )
    op.get_bind().exec_driver_sql(
        (Path(__file__).parent.parent / "sql" / "order_functions.sql").read_text(
            "utf-8"
        ),
        execution_options={"no_parameters": True},
    )


def downgrade() -> None:
    op.execute("DROP FUNCTION snaptide.take_order() CASCADE")
    op.execute("DROP SEQUENCE snaptide.notified_at")
    op.execute("DROP SEQUENCE snaptide.order_no")
