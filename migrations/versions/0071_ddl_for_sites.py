"""Sites follow DDL of their masters."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY, OID

revision = "0071"
down_revision = "0070"

_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "site_ddl",
        sa.Column("id", sa.Uuid(), primary_key=True),
        sa.Column("table_schema", sa.Text(), primary_key=True),
        sa.Column("table_name", sa.Text(), primary_key=True),
        sa.Column("table_oid", OID(), nullable=False),
        sa.Column("columns", ARRAY(sa.SmallInteger()), nullable=False),
        sa.Column("added", ARRAY(sa.SmallInteger()), nullable=False),
        sa.Column("statements", sa.Text(), nullable=False),
        sa.Column("made_at", _MOMENT, server_default=sa.func.clock_timestamp()),
        schema="snaptide",
    )
    followed = sa.Column(
        "ddl_followed", ARRAY(sa.Text()), nullable=False, server_default="{}"
    )
    op.add_column("snapshot", followed, schema="snaptide")


def downgrade() -> None:
    op.drop_column("snapshot", "ddl_followed", schema="snaptide")
    op.drop_table("site_ddl", schema="snaptide")
