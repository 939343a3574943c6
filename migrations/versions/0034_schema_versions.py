"""Adds schema versions of replication groups, their tables and their snapshots."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"


def upgrade() -> None:
    op.create_table(
        "group_schema",
        sa.Column("table_schema", sa.Text(), nullable=False),
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.Column("replication_group", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "table_schema", "table_name", name=op.f("group_schema_pkey")
        ),
        schema="snaptide",
    )
    op.execute(
        "INSERT INTO snaptide.group_schema"
        " SELECT table_schema, table_name, group_name, 1 FROM snaptide.group_table"
    )
    op.add_column(
        "replication_group",
        sa.Column(
            "schema_version",
            sa.BigInteger(),
            server_default=sa.text("1"),
            nullable=False,
        ),
        schema="snaptide",
    )
    op.add_column(
        "snapshot", sa.Column("schema_version", sa.BigInteger()), schema="snaptide"
    )


def downgrade() -> None:
    op.drop_column("snapshot", "schema_version", schema="snaptide")
    op.drop_column("replication_group", "schema_version", schema="snaptide")
    op.drop_table("group_schema", schema="snaptide")
