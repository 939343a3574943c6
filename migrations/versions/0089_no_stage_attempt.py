"""Spark's tasks tell the driver itself which attempts count."""

import sqlalchemy as sa
from alembic import op

revision = "0089"
down_revision = "0088"


def upgrade() -> None:
    op.drop_table("stage_attempt", schema="snaptide")


def downgrade() -> None:
    keys = sa.Column("load_id", sa.Uuid), sa.Column("attempt", sa.Text)
    rows = sa.Column("rows", sa.BigInteger, nullable=False)
    key = sa.PrimaryKeyConstraint("load_id", "attempt")
    op.create_table("stage_attempt", *keys, rows, key, schema="snaptide")
