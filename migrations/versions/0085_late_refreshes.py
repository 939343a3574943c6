"""Refreshes that come later than contracts promise leave a note for the next look."""

from __future__ import annotations

from alembic import op

from sites.sessions.revisions import folder

revision = "0085"
down_revision = "0084"


def upgrade() -> None:
    # It has percent signs, which are no parameters.
    op.get_bind().exec_driver_sql(
        (folder() / "sql" / "late_refreshes.sql").read_text("utf-8"),
        execution_options={"no_parameters": True},
    )


def downgrade() -> None:
    op.execute("DROP TRIGGER snaptide_late ON snaptide.registered_snapshot")
    op.execute("DROP FUNCTION snaptide.note_late_refresh()")
    op.drop_table("late_refresh", schema="snaptide")
    op.execute("DROP FUNCTION snaptide.oldest_unseen(text, pg_snapshot)")
