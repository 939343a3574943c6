"""Creates the tables of a site's identity and of its running work."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "site_identity",
        sa.Column(
            "site_id",
            sa.Uuid(),
            server_default=sa.text("gen_random_uuid()"),
            nullable=False,
        ),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("system_identifier", sa.BigInteger(), nullable=False),
        sa.Column("timeline", sa.Integer(), nullable=False),
        sa.Column("database_oid", sa.BigInteger(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=True,
        ),
        sa.Column("one_row", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.CheckConstraint("one_row = 1", name=op.f("site_identity_one_row_check")),
        sa.PrimaryKeyConstraint("site_id", name=op.f("site_identity_pkey")),
        sa.UniqueConstraint("one_row", name=op.f("site_identity_one_row_key")),
        schema="snaptide",
    )
    op.create_table(
        "activity",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("phase", sa.Text(), server_default="", nullable=False),
        sa.Column("done", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=True),
        sa.Column("unit", sa.Text(), server_default="", nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column(
            "started_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=True,
        ),
        sa.Column(
            "updated_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=True,
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("activity_pkey")),
        schema="snaptide",
    )


def downgrade() -> None:
    op.drop_table("activity", schema="snaptide")
    op.drop_table("site_identity", schema="snaptide")
