"""Identifies transactions that may come by two ways by their origin's numbers.

Until now, masters watched for them by times.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0043"

#: Larger than any number of a site: if a master watched for a site's transactions by
#: times, it now watches for all of them.
_EVERY = 2**48


def upgrade() -> None:
    op.create_table(
        "ledger_horizon",
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("transaction", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("origin", name=op.f("ledger_horizon_pkey")),
        schema="snaptide",
    )
    for column in (
        sa.Column("first_no", sa.BigInteger(), server_default="0"),
        sa.Column("end_no", sa.BigInteger(), server_default=str(_EVERY)),
        sa.Column("whole", sa.Boolean(), server_default=sa.text("false")),
    ):
        column.nullable = False
        op.add_column("second_way", column, schema="snaptide")
        op.alter_column(
            "second_way", column.name, server_default=None, schema="snaptide"
        )
    known = sa.Column(
        "known_from", sa.BigInteger(), server_default=sa.text("0"), nullable=False
    )
    op.add_column("second_way", known, schema="snaptide")
    op.execute("UPDATE snaptide.second_way SET known_from = end_no WHERE NOT complete")
    for name in ("since", "until", "complete"):
        op.drop_column("second_way", name, schema="snaptide")
    _key("target", "part")
    op.add_column(
        "taken_transaction", sa.Column("sender", sa.Text()), schema="snaptide"
    )


def downgrade() -> None:
    op.drop_column("taken_transaction", "sender", schema="snaptide")
    # The older version only knows whole transactions, not single tables or parts.
    op.execute(
        "INSERT INTO snaptide.taken_transaction (replication_group, origin,"
        " transaction, made_at, certain, target, part)"
        " SELECT DISTINCT replication_group, origin, transaction, made_at,"
        " false, '', '' FROM snaptide.taken_transaction ON CONFLICT DO NOTHING"
    )
    op.execute(
        "DELETE FROM snaptide.taken_transaction WHERE (target, part) <> ('', '')"
    )
    op.drop_constraint("taken_transaction_pkey", "taken_transaction", schema="snaptide")
    for name in ("target", "part"):
        op.drop_column("taken_transaction", name, schema="snaptide")
    op.create_primary_key(
        "taken_transaction_pkey",
        "taken_transaction",
        ["replication_group", "origin", "transaction", "made_at"],
        schema="snaptide",
    )
    time = sa.DateTime(timezone=True)
    for name, since in (("since", "now() - interval '30 days'"), ("until", "now()")):
        column = sa.Column(name, time, server_default=sa.text(since), nullable=False)
        op.add_column("second_way", column, schema="snaptide")
        op.alter_column("second_way", name, server_default=None, schema="snaptide")
    complete: sa.Column[bool] = sa.Column(
        "complete", sa.Boolean(), server_default=sa.text("true"), nullable=False
    )
    op.add_column("second_way", complete, schema="snaptide")
    op.execute("UPDATE snaptide.second_way SET complete = false")
    for name in ("known_from", "whole", "end_no", "first_no"):
        op.drop_column("second_way", name, schema="snaptide")
    op.drop_table("ledger_horizon", schema="snaptide")


def _key(*more: str) -> None:
    """Add columns to the key, so that one table's changes, or a part, can be noted."""
    table = "taken_transaction"
    op.drop_constraint(f"{table}_pkey", table, schema="snaptide")
    for name in more:
        column = sa.Column(name, sa.Text(), server_default="", nullable=False)
        op.add_column(table, column, schema="snaptide")
        op.alter_column(table, name, server_default=None, schema="snaptide")
    key = ["replication_group", "origin", "transaction", "made_at", *more]
    op.create_primary_key(f"{table}_pkey", table, key, schema="snaptide")
