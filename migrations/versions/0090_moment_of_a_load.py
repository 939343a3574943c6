"""A load knows the moment that it copies, so that none takes part in another's."""

import sqlalchemy as sa
from alembic import op

revision = "0090"
down_revision = "0089"

# The other program looks for the remains of a load under another id, or has no moment
# of them: each load that is not finished begins anew.
_ANEW = """
WITH ended AS (DELETE FROM snaptide.load_range)
UPDATE snaptide.snapshot SET image = NULL WHERE NOT loaded
"""


def upgrade() -> None:
    op.execute(_ANEW)
    op.add_column("load_range", sa.Column("moment", sa.Text), schema="snaptide")


def downgrade() -> None:
    op.execute(_ANEW)
    op.drop_column("load_range", "moment", schema="snaptide")
