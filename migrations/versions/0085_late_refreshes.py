"""Refreshes that come later than contracts promise leave a note for the next look."""

from alembic import op

from sites.sessions.revisions import run_script

revision = "0085"
down_revision = "0084"


def upgrade() -> None:
    run_script(op.get_bind(), "late_refreshes")


def downgrade() -> None:
    op.execute("DROP TRIGGER snaptide_late ON snaptide.registered_snapshot")
    op.execute("DROP FUNCTION snaptide.note_late_refresh()")
    op.drop_table("late_refresh", schema="snaptide")
    op.execute("DROP FUNCTION snaptide.oldest_unseen(text, pg_snapshot)")
