"""Drops the foreign key of parked calls, and stores more in footprints.

Footprints now include the rows that a transaction made. Those of parked transactions
cannot be computed from their calls alone, so the upgrade and the downgrade drop them:
a push then judges dependants by the master's rows.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


CALLS = "error_call_error_id_fkey"


def upgrade() -> None:
    op.drop_constraint(CALLS, "error_call", schema="snaptide")
    _make_anew(
        sa.Column("how", sa.Text(), nullable=False),
        sa.Column("entry", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint(
            "how IN ('holds', 'refers', 'made')",
            name=op.f("error_footprint_how_check"),
        ),
    )
    op.create_index(
        "error_footprint_error_id_idx",
        "error_footprint",
        ["error_id"],
        schema="snaptide",
    )


def downgrade() -> None:
    _make_anew(
        sa.Column("entry", sa.Text(), nullable=False),
        sa.Column("refers", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["error_id"],
            ["snaptide.error_transaction.id"],
            name=op.f("error_footprint_error_id_fkey"),
            ondelete="CASCADE",
        ),
    )
    op.create_foreign_key(
        CALLS,
        "error_call",
        "error_transaction",
        ["error_id"],
        ["id"],
        source_schema="snaptide",
        referent_schema="snaptide",
        ondelete="CASCADE",
    )


def _make_anew(*parts: sa.schema.SchemaItem) -> None:
    op.drop_table("error_footprint", schema="snaptide")
    op.create_table(
        "error_footprint",
        sa.Column("error_id", sa.BigInteger(), nullable=False),
        sa.Column("origin_id", sa.Uuid(), nullable=False),
        *parts,
        schema="snaptide",
    )
    op.create_index(
        "error_footprint_entry_idx",
        "error_footprint",
        ["origin_id", "entry"],
        schema="snaptide",
    )
