"""Adds the records of sites that were switched to another master.

With them, a master takes a transaction only once that may reach it by two ways.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "0031"
down_revision = "0030"

_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    for name, kind in (
        ("transactions", sa.BigInteger()),
        ("origins", sa.Text()),
        ("made", _TIME),
    ):
        op.add_column("push_batch", sa.Column(name, ARRAY(kind)), schema="snaptide")
    op.add_column(
        "push_marker",
        sa.Column("watched", sa.Integer(), server_default=sa.text("0"), nullable=False),
        schema="snaptide",
    )
    op.create_table(
        "second_way",
        sa.Column("replication_group", sa.Text(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("since", _TIME, nullable=False),
        sa.Column("until", _TIME, nullable=False),
        sa.Column("alone", sa.Boolean(), nullable=False),
        sa.Column(
            "complete", sa.Boolean(), server_default=sa.text("true"), nullable=False
        ),
        sa.PrimaryKeyConstraint(
            "replication_group", "origin", name=op.f("second_way_pkey")
        ),
        schema="snaptide",
    )
    op.create_table(
        "taken_transaction",
        sa.Column("replication_group", sa.Text(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("transaction", sa.BigInteger(), nullable=False),
        sa.Column("made_at", _TIME, nullable=False),
        sa.Column("certain", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint(
            "replication_group",
            "origin",
            "transaction",
            "made_at",
            name=op.f("taken_transaction_pkey"),
        ),
        schema="snaptide",
    )
    op.create_table(
        "former_master",
        sa.Column("master_id", sa.Uuid(), nullable=False),
        sa.Column("snapshot", sa.Text(), nullable=False),
        sa.Column("master", sa.Text(), nullable=False),
        sa.Column("left_at", _TIME, server_default=sa.text("now()"), nullable=True),
        sa.Column("tried_at", _TIME),
        sa.PrimaryKeyConstraint(
            "master_id", "snapshot", name=op.f("former_master_pkey")
        ),
        schema="snaptide",
    )


def downgrade() -> None:
    for name in ("former_master", "taken_transaction", "second_way"):
        op.drop_table(name, schema="snaptide")
    op.drop_column("push_marker", "watched", schema="snaptide")
    for name in ("made", "origins", "transactions"):
        op.drop_column("push_batch", name, schema="snaptide")
