"""Adds the rows that may differ between masters after a decision at one of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0045"
down_revision = "0044"


def upgrade() -> None:
    op.create_table(
        "differing_row",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("group_id", sa.Uuid(), nullable=False),
        sa.Column("table_schema", sa.Text(), nullable=False),
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.Column("key", JSONB()),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column(
            "since",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("differing_row_pkey")),
        sa.UniqueConstraint(
            "group_id",
            "table_schema",
            "table_name",
            "key",
            name=op.f("differing_row_group_id_table_schema_table_name_key_key"),
            postgresql_nulls_not_distinct=True,
        ),
        schema="snaptide",
    )


def downgrade() -> None:
    op.drop_table("differing_row", schema="snaptide")
