"""Users commit while the server's queue of notifications is full."""

from alembic import op

from sites.sessions.revisions import run_script

revision = "0091"
down_revision = "0090"


def upgrade() -> None:
    run_script(op.get_bind(), "take_order")


def downgrade() -> None:
    """The function is right for the version before, too."""
