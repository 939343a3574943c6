"""Adds incarnations, what sites remember of each other, and the ledger of batches."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0013"
down_revision = "0012"

_STAMP = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.add_column(
        "site_identity",
        sa.Column(
            "incarnation",
            sa.Uuid(),
            server_default=sa.text("gen_random_uuid()"),
            nullable=False,
        ),
        schema="snaptide",
    )
    op.add_column(
        "site_identity",
        sa.Column(
            "generation", sa.Integer(), server_default=sa.text("0"), nullable=False
        ),
        schema="snaptide",
    )
    _create_peer()
    _create_ledger()
    for column in (
        sa.Column("incarnation", sa.Uuid(), nullable=True),
        sa.Column(
            "purged_batch", sa.BigInteger(), server_default=sa.text("0"), nullable=False
        ),
        sa.Column(
            "purged_order", sa.BigInteger(), server_default=sa.text("0"), nullable=False
        ),
    ):
        op.add_column("destination", column, schema="snaptide")
    op.add_column(
        "refresh_group",
        sa.Column("incarnation", sa.Uuid(), nullable=True),
        schema="snaptide",
    )
    # A restored database reuses transaction numbers, but no batch and order numbers.
    op.drop_constraint(_BY_NUMBER, "error_transaction", schema="snaptide")
    op.create_unique_constraint(
        _BY_PLACE,
        "error_transaction",
        ["origin_id", "batch_no", "order_no"],
        schema="snaptide",
    )


def downgrade() -> None:
    op.drop_constraint(_BY_PLACE, "error_transaction", schema="snaptide")
    op.create_unique_constraint(
        _BY_NUMBER,
        "error_transaction",
        ["origin_id", "origin_transaction"],
        schema="snaptide",
    )
    op.drop_column("refresh_group", "incarnation", schema="snaptide")
    for column in ("purged_order", "purged_batch", "incarnation"):
        op.drop_column("destination", column, schema="snaptide")
    op.drop_table("push_batch", schema="snaptide")
    op.drop_table("peer", schema="snaptide")
    op.drop_column("site_identity", "generation", schema="snaptide")
    op.drop_column("site_identity", "incarnation", schema="snaptide")


_BY_NUMBER = "error_transaction_origin_id_origin_transaction_key"
_BY_PLACE = "error_transaction_origin_id_batch_no_order_no_key"


def _create_peer() -> None:
    op.create_table(
        "peer",
        sa.Column("site_id", sa.Uuid(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("incarnation", sa.Uuid(), nullable=False),
        sa.Column(
            "former",
            postgresql.ARRAY(sa.Uuid()),
            server_default=sa.text("'{}'::uuid[]"),
            nullable=False,
        ),
        sa.Column(
            "contact_no", sa.BigInteger(), server_default=sa.text("0"), nullable=False
        ),
        sa.Column("token", sa.Uuid(), nullable=True),
        sa.Column("next_token", sa.Uuid(), nullable=True),
        sa.Column("met_at", _STAMP, server_default=sa.text("now()"), nullable=True),
        sa.CheckConstraint("role IN ('master', 'site')", name=op.f("peer_role_check")),
        sa.PrimaryKeyConstraint("site_id", "role", name=op.f("peer_pkey")),
        schema="snaptide",
    )


def _create_ledger() -> None:
    op.create_table(
        "push_batch",
        sa.Column("origin_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("orders", postgresql.ARRAY(sa.BigInteger()), nullable=False),
        sa.Column("started", postgresql.ARRAY(_STAMP), nullable=False),
        sa.Column("shipped_at", _STAMP, server_default=sa.text("now()"), nullable=True),
        sa.PrimaryKeyConstraint("origin_id", "number", name=op.f("push_batch_pkey")),
        schema="snaptide",
    )
