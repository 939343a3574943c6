"""Creates the tables of a site's queue and its destinations."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from sites.types import PgSnapshot, Xid8

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "queue",
        sa.Column("id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("snapshot", sa.Text(), nullable=False),
        sa.Column("base_schema", sa.Text(), nullable=False),
        sa.Column("base_table", sa.Text(), nullable=False),
        sa.Column("queue_table", sa.Text(), nullable=False),
        sa.Column("extra_table", sa.Text(), nullable=False),
        sa.Column("destination", sa.Text(), nullable=False),
        sa.Column("target_schema", sa.Text(), nullable=False),
        sa.Column("target_table", sa.Text(), nullable=False),
        sa.Column("columns", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("identity_columns", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("partial", sa.Boolean(), nullable=False),
        sa.Column(
            "covered_batch",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "covered_order",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("queue_pkey")),
        sa.UniqueConstraint("queue_table", name=op.f("queue_queue_table_key")),
        sa.UniqueConstraint("snapshot", name=op.f("queue_snapshot_key")),
        schema="snaptide",
    )
    op.create_table(
        "deferred_transaction",
        sa.Column("xid", Xid8(), nullable=False),
        sa.Column("order_no", sa.BigInteger(), nullable=True),
        sa.Column(
            "start_time",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=True,
        ),
        sa.Column("origin_user", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("xid", name=op.f("deferred_transaction_pkey")),
        schema="snaptide",
    )
    op.create_table(
        "delivery",
        sa.Column("destination", sa.Text(), nullable=False),
        sa.Column("xid", Xid8(), nullable=False),
        sa.Column("order_no", sa.BigInteger(), nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.Column("batch", sa.BigInteger(), nullable=True),
        sa.Column("delivered_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("destination", "xid", name=op.f("delivery_pkey")),
        sa.UniqueConstraint(
            "destination",
            "batch",
            "order_no",
            name=op.f("delivery_destination_batch_order_no_key"),
        ),
        schema="snaptide",
    )
    op.create_table(
        "destination",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column(
            "disabled", sa.Boolean(), server_default=sa.text("false"), nullable=False
        ),
        sa.Column("window_end", PgSnapshot(), nullable=False),
        sa.Column(
            "batch_no", sa.BigInteger(), server_default=sa.text("0"), nullable=False
        ),
        sa.Column("batch_id", sa.Uuid(), nullable=True),
        sa.Column(
            "batch_end", sa.BigInteger(), server_default=sa.text("0"), nullable=False
        ),
        sa.Column("previous_id", sa.Uuid(), nullable=True),
        sa.Column(
            "previous_end",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("last_push_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_txn_count", sa.BigInteger(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("last_error_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("destination_pkey")),
        schema="snaptide",
    )


def downgrade() -> None:
    op.drop_table("destination", schema="snaptide")
    op.drop_table("delivery", schema="snaptide")
    op.drop_table("deferred_transaction", schema="snaptide")
    op.drop_table("queue", schema="snaptide")
