"""Adds versions of rules, columns left out of comparisons, and fuller resolutions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0009"
down_revision = "0008"

_TEXTS = postgresql.ARRAY(sa.Text())
_NONE = sa.text("'{}'::text[]")
_STAMP = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.execute(
        sa.schema.CreateSequence(sa.Sequence("conflict_number", schema="snaptide"))
    )
    for column in (
        sa.Column("master", sa.Text(), nullable=True),
        sa.Column("changed_at", _STAMP, nullable=True),
        sa.Column("columns", _TEXTS, nullable=True),
        sa.Column("rules_version", sa.BigInteger(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("number", sa.BigInteger(), nullable=True),
    ):
        op.add_column("resolution_record", column, schema="snaptide")
    op.create_index(
        "resolution_record_resolved_at",
        "resolution_record",
        ["resolved_at"],
        schema="snaptide",
    )
    op.create_table(
        "rules_version",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("changed_at", _STAMP, server_default=sa.text("clock_timestamp()")),
        sa.Column(
            "changed_by",
            sa.Text(),
            server_default=sa.text("SESSION_USER"),
            nullable=False,
        ),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("rules", postgresql.JSONB(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("rules_version_pkey")),
        schema="snaptide",
    )
    op.create_table(
        "comparison",
        sa.Column("table_schema", sa.Text(), nullable=False),
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.Column("row_version", sa.Text(), nullable=True),
        sa.Column("not_at_update", _TEXTS, server_default=_NONE, nullable=False),
        sa.Column("not_at_delete", _TEXTS, server_default=_NONE, nullable=False),
        sa.PrimaryKeyConstraint(
            "table_schema", "table_name", name=op.f("comparison_pkey")
        ),
        schema="snaptide",
    )


def downgrade() -> None:
    op.drop_table("comparison", schema="snaptide")
    op.drop_table("rules_version", schema="snaptide")
    op.drop_index(
        "resolution_record_resolved_at", "resolution_record", schema="snaptide"
    )
    for name in (
        "number",
        "reason",
        "rules_version",
        "columns",
        "changed_at",
        "master",
    ):
        op.drop_column("resolution_record", name, schema="snaptide")
    op.execute(
        sa.schema.DropSequence(sa.Sequence("conflict_number", schema="snaptide"))
    )
