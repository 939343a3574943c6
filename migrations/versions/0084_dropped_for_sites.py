"""DDL for sites says which columns it dropped."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "0084"
down_revision = "0083"


def upgrade() -> None:
    dropped = sa.Column("dropped", ARRAY(sa.SmallInteger()))
    op.add_column("site_ddl", dropped, schema="snaptide")


def downgrade() -> None:
    op.drop_column("site_ddl", "dropped", schema="snaptide")
