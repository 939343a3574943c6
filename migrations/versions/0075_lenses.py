"""Lenses: expressions that put columns in place of those that a master has dropped."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, OID

revision = "0075"
down_revision = "0074"


def upgrade() -> None:
    op.create_table(
        "lens",
        sa.Column("id", sa.Integer(), sa.Identity(), primary_key=True),
        sa.Column("table_schema", sa.Text(), nullable=False),
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.Column("table_oid", OID(), nullable=False),
        sa.Column("gone", JSONB(), nullable=False),
        sa.Column("sets", sa.JSON(), nullable=False),
        sa.Column("columns", JSONB(), nullable=False),
        sa.Column("shared", ARRAY(sa.Text()), nullable=False),
        schema="snaptide",
    )


def downgrade() -> None:
    op.drop_table("lens", schema="snaptide")
