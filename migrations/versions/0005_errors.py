"""Creates the tables of markers, the error queue and schedules."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "push_marker",
        sa.Column("origin_id", sa.Uuid(), nullable=False),
        sa.Column("stream", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column(
            "batch_no", sa.BigInteger(), server_default=sa.text("0"), nullable=False
        ),
        sa.Column("batch_id", sa.Uuid(), nullable=True),
        sa.Column(
            "order_no", sa.BigInteger(), server_default=sa.text("0"), nullable=False
        ),
        sa.Column("applied_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("origin_id", "stream", name=op.f("push_marker_pkey")),
        schema="snaptide",
    )
    op.create_table(
        "error_transaction",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("origin_id", sa.Uuid(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("origin_transaction", sa.Text(), nullable=False),
        sa.Column("origin_user", sa.Text(), nullable=False),
        sa.Column("batch_no", sa.BigInteger(), nullable=False),
        sa.Column("order_no", sa.BigInteger(), nullable=False),
        sa.Column("start_time", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "parked_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=True,
        ),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("error_code", sa.Text(), nullable=False),
        sa.Column("error_message", sa.Text(), nullable=False),
        sa.Column(
            "waits_for",
            postgresql.ARRAY(sa.BigInteger()),
            server_default=sa.text("'{}'::bigint[]"),
            nullable=False,
        ),
        sa.CheckConstraint(
            "reason IN ('conflict', 'error', 'dependant')",
            name=op.f("error_transaction_reason_check"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("error_transaction_pkey")),
        sa.UniqueConstraint(
            "origin_id",
            "origin_transaction",
            name=op.f("error_transaction_origin_id_origin_transaction_key"),
        ),
        schema="snaptide",
    )
    op.create_index(
        op.f("error_transaction_origin_id_idx"),
        "error_transaction",
        ["origin_id"],
        unique=False,
        schema="snaptide",
    )
    op.create_table(
        "error_call",
        sa.Column("error_id", sa.BigInteger(), nullable=False),
        sa.Column("call_no", sa.BigInteger(), nullable=False),
        sa.Column("target_schema", sa.Text(), nullable=False),
        sa.Column("target_table", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("identity_columns", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column(
            "old_values",
            sa.JSON(none_as_null=True),
            nullable=True,
        ),
        sa.Column(
            "new_values",
            sa.JSON(none_as_null=True),
            nullable=True,
        ),
        sa.Column(
            "current_values",
            sa.JSON(none_as_null=True),
            nullable=True,
        ),
        sa.Column("conflict", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["error_id"],
            ["snaptide.error_transaction.id"],
            name=op.f("error_call_error_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("error_id", "call_no", name=op.f("error_call_pkey")),
        schema="snaptide",
    )
    op.create_table(
        "error_footprint",
        sa.Column("error_id", sa.BigInteger(), nullable=False),
        sa.Column("origin_id", sa.Uuid(), nullable=False),
        sa.Column("entry", sa.Text(), nullable=False),
        sa.Column("refers", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["error_id"],
            ["snaptide.error_transaction.id"],
            name=op.f("error_footprint_error_id_fkey"),
            ondelete="CASCADE",
        ),
        schema="snaptide",
    )
    op.create_index(
        "error_footprint_entry_idx",
        "error_footprint",
        ["origin_id", "entry"],
        unique=False,
        schema="snaptide",
    )
    op.create_table(
        "schedule",
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("interval", sa.Text(), nullable=False),
        sa.Column(
            "options",
            postgresql.JSONB(),
            server_default=sa.text("'{}'::jsonb"),
            nullable=False,
        ),
        sa.Column(
            "disabled", sa.Boolean(), server_default=sa.text("false"), nullable=False
        ),
        sa.Column(
            "next_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("last_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "kind IN ('push', 'refresh', 'purge')", name=op.f("schedule_kind_check")
        ),
        sa.PrimaryKeyConstraint("kind", "subject", name=op.f("schedule_pkey")),
        schema="snaptide",
    )


def downgrade() -> None:
    op.drop_table("schedule", schema="snaptide")
    op.drop_table("error_footprint", schema="snaptide")
    op.drop_table("error_call", schema="snaptide")
    op.drop_table("error_transaction", schema="snaptide")
    op.drop_table("push_marker", schema="snaptide")
