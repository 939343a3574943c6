"""Creates the tables of refresh groups and snapshots."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from sites.types import PgSnapshot

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.create_table(
        "refresh_group",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("master", sa.Text(), nullable=False),
        sa.Column("master_id", sa.Uuid(), nullable=False),
        sa.Column("position", PgSnapshot(), nullable=True),
        sa.Column("refreshed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=True,
        ),
        sa.PrimaryKeyConstraint("name", name=op.f("refresh_group_pkey")),
        schema="snaptide",
    )
    op.create_table(
        "snapshot",
        sa.Column("schema", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("refresh_group", sa.Text(), nullable=False),
        sa.Column("base_table", sa.Text(), nullable=False),
        sa.Column("extra_table", sa.Text(), nullable=False),
        sa.Column("log_view", sa.Text(), nullable=False),
        sa.Column("master_schema", sa.Text(), nullable=False),
        sa.Column("master_table", sa.Text(), nullable=False),
        sa.Column("columns", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("identity_columns", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("condition", sa.Text(), nullable=True),
        sa.Column("updatable", sa.Boolean(), nullable=False),
        sa.Column("method", sa.Text(), server_default="?", nullable=False),
        sa.Column(
            "loaded", sa.Boolean(), server_default=sa.text("false"), nullable=False
        ),
        sa.Column(
            "must_complete",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
        ),
        sa.Column("last_method", sa.Text(), nullable=True),
        sa.Column("last_refresh", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=True,
        ),
        sa.ForeignKeyConstraint(
            ["refresh_group"],
            ["snaptide.refresh_group.name"],
            name=op.f("snapshot_refresh_group_fkey"),
        ),
        sa.PrimaryKeyConstraint("schema", "name", name=op.f("snapshot_pkey")),
        sa.UniqueConstraint("extra_table", name=op.f("snapshot_extra_table_key")),
        sa.UniqueConstraint("log_view", name=op.f("snapshot_log_view_key")),
        sa.UniqueConstraint(
            "schema", "base_table", name=op.f("snapshot_schema_base_table_key")
        ),
        schema="snaptide",
    )
    op.create_index(
        op.f("snapshot_refresh_group_idx"),
        "snapshot",
        ["refresh_group"],
        unique=False,
        schema="snaptide",
    )


def downgrade() -> None:
    op.drop_table("snapshot", schema="snaptide")
    op.drop_table("refresh_group", schema="snaptide")
