"""Creates the tables of snapshot logs, registered snapshots, rules and resolutions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from sites.types import PgSnapshot, Xid8

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "snapshot_log",
        sa.Column("id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("table_schema", sa.Text(), nullable=False),
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.Column("log_table", sa.Text(), nullable=False),
        sa.Column("with_rowid", sa.Boolean(), nullable=False),
        sa.Column("identity_columns", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("created_xid", Xid8(), nullable=False),
        sa.Column(
            "horizon", Xid8(), server_default=sa.text("'0'::xid8"), nullable=False
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=True,
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("snapshot_log_pkey")),
        sa.UniqueConstraint("log_table", name=op.f("snapshot_log_log_table_key")),
        sa.UniqueConstraint(
            "table_schema",
            "table_name",
            name=op.f("snapshot_log_table_schema_table_name_key"),
        ),
        schema="snaptide",
    )
    op.create_table(
        "registered_snapshot",
        sa.Column("site_id", sa.Uuid(), nullable=False),
        sa.Column("snapshot", sa.Text(), nullable=False),
        sa.Column("site_name", sa.Text(), nullable=False),
        sa.Column("refresh_group", sa.Text(), nullable=False),
        sa.Column("log_id", sa.Integer(), nullable=True),
        sa.Column("table_schema", sa.Text(), nullable=False),
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.Column("condition", sa.Text(), nullable=True),
        sa.Column("updatable", sa.Boolean(), nullable=False),
        sa.Column("position", PgSnapshot(), nullable=True),
        sa.Column(
            "registered_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=True,
        ),
        sa.Column("refreshed_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["log_id"],
            ["snaptide.snapshot_log.id"],
            name=op.f("registered_snapshot_log_id_fkey"),
            ondelete="SET NULL",
        ),
        sa.PrimaryKeyConstraint(
            "site_id", "snapshot", name=op.f("registered_snapshot_pkey")
        ),
        schema="snaptide",
    )
    op.create_index(
        op.f("registered_snapshot_log_id_idx"),
        "registered_snapshot",
        ["log_id"],
        unique=False,
        schema="snaptide",
    )
    op.create_table(
        "column_group",
        sa.Column("id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("table_schema", sa.Text(), nullable=False),
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("columns", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("column_group_pkey")),
        sa.UniqueConstraint(
            "table_schema",
            "table_name",
            "name",
            name=op.f("column_group_table_schema_table_name_name_key"),
        ),
        schema="snaptide",
    )
    op.create_table(
        "resolution_rule",
        sa.Column("id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("table_schema", sa.Text(), nullable=False),
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("reference", sa.Text(), nullable=False),
        sa.Column("sequence_no", sa.Integer(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column(
            "parameters",
            postgresql.JSONB(),
            server_default=sa.text("'{}'::jsonb"),
            nullable=False,
        ),
        sa.CheckConstraint(
            "kind IN ('update', 'uniqueness', 'delete')",
            name=op.f("resolution_rule_kind_check"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("resolution_rule_pkey")),
        sa.UniqueConstraint(
            "table_schema",
            "table_name",
            "kind",
            "reference",
            "sequence_no",
            name=op.f(
                "resolution_rule_table_schema_table_name_kind_reference_sequence_no_key"
            ),
        ),
        schema="snaptide",
    )
    op.create_table(
        "resolution_record",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column(
            "resolved_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=True,
        ),
        sa.Column("table_schema", sa.Text(), nullable=False),
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.Column("row_key", postgresql.JSONB(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("origin_transaction", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("reference", sa.Text(), nullable=False),
        sa.Column("sequence_no", sa.Integer(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("old_values", postgresql.JSONB(), nullable=True),
        sa.Column("new_values", postgresql.JSONB(), nullable=True),
        sa.Column("current_values", postgresql.JSONB(), nullable=True),
        sa.Column("result_values", postgresql.JSONB(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("resolution_record_pkey")),
        schema="snaptide",
    )


def downgrade() -> None:
    op.drop_table("resolution_record", schema="snaptide")
    op.drop_table("resolution_rule", schema="snaptide")
    op.drop_table("column_group", schema="snaptide")
    op.drop_table("registered_snapshot", schema="snaptide")
    op.drop_table("snapshot_log", schema="snaptide")
