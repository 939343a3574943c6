"""A load knows the moment that it copies, so that none takes part in another's."""

import sqlalchemy as sa
from alembic import op

revision = "0090"
down_revision = "0089"


def upgrade() -> None:
    op.add_column("load_range", sa.Column("moment", sa.Text), schema="snaptide")


def downgrade() -> None:
    op.drop_column("load_range", "moment", schema="snaptide")
