"""Groups note when a refresh found nothing new; and views of how far everybody is."""

import sqlalchemy as sa
from alembic import op

from sites.sessions.revisions import run_script
from sites.transfer.types import PgSnapshot

revision = "0079"
down_revision = "0078"


def upgrade() -> None:
    unchanged = sa.Column("unchanged_at", PgSnapshot())
    op.add_column("refresh_group", unchanged, schema="snaptide")
    run_script(op.get_bind(), "levels")


def downgrade() -> None:
    op.execute("DROP FUNCTION snaptide.repl_status(text, text)")
    op.execute("DROP VIEW snaptide.repl_level")
    op.execute("DROP FUNCTION snaptide.repl_waits(text, pg_snapshot)")
    op.drop_column("refresh_group", "unchanged_at", schema="snaptide")
