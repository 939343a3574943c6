"""Adds budgets of destinations, pauses after failures, and views of the backlog."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"

COLUMNS = (
    "max_lag_age",
    "max_lag_bytes",
    "excused",
    "invalid_since",
    "invalid_reason",
    "failures",
    "retry_at",
)


def upgrade() -> None:
    for column in (
        sa.Column("max_lag_age", sa.Interval()),
        sa.Column("max_lag_bytes", sa.BigInteger()),
        sa.Column(
            "excused", sa.Boolean(), server_default=sa.text("false"), nullable=False
        ),
        sa.Column("invalid_since", sa.DateTime(timezone=True)),
        sa.Column("invalid_reason", sa.Text()),
        sa.Column(
            "failures", sa.Integer(), server_default=sa.text("0"), nullable=False
        ),
        sa.Column("retry_at", sa.DateTime(timezone=True)),
    ):
        op.add_column("destination", column, schema="snaptide")
    text = Path(__file__).parent.parent / "sql" / "backlog.sql"
    op.get_bind().exec_driver_sql(
        text.read_text("utf-8"), execution_options={"no_parameters": True}
    )


def downgrade() -> None:
    for view in ("defbacklog", "defload"):
        op.execute(f'DROP VIEW snaptide."{view}"')
    for name in reversed(COLUMNS):
        op.drop_column("destination", name, schema="snaptide")
