"""Publications whose rows follow those of their parents."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from sites.sessions.revisions import run_script

revision = "0086"
down_revision = "0085"


def upgrade() -> None:
    follows = sa.Column("follows", JSONB(), nullable=False, server_default="[]")
    op.add_column("publication_table", follows, schema="snaptide")
    run_script(op.get_bind(), "granted_follows")


def downgrade() -> None:
    op.execute("DROP FUNCTION snaptide.granted_follows()")
    op.drop_column("publication_table", "follows", schema="snaptide")
