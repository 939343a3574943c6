"""Publications whose rows follow those of their parents, and parked procedure calls.

Logins of granted sites may add calls of procedures, to what they have just parked.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from sites.sessions.revisions import folder

revision = "0086"
down_revision = "0085"

#: Where policies were made by earlier versions.
_JUST_PARKED = """
DO $$ BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_policy
               WHERE polrelid = 'snaptide.error_procedure'::regclass
                 AND polname = 'snaptide$site') THEN
        ALTER POLICY "snaptide$site" ON snaptide.error_procedure WITH CHECK (error_id IN
            (SELECT t.id FROM snaptide.error_transaction t WHERE t.parked_at >= now()));
    END IF;
END $$
"""


def upgrade() -> None:
    op.execute(_JUST_PARKED)
    follows = sa.Column("follows", JSONB(), nullable=False, server_default="[]")
    op.add_column("publication_table", follows, schema="snaptide")
    op.execute((folder() / "sql" / "granted_follows.sql").read_text("utf-8"))


def downgrade() -> None:
    op.execute("DROP FUNCTION snaptide.granted_follows()")
    op.drop_column("publication_table", "follows", schema="snaptide")
