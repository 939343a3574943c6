"""Groups note when a refresh found nothing new; and views of how far everybody is."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import op

from sites.transfer.types import PgSnapshot

revision = "0079"
down_revision = "0078"

_LEVELS = Path(__file__).parent.parent / "sql" / "levels.sql"


def upgrade() -> None:
    op.add_column(
        "refresh_group", sa.Column("unchanged_at", PgSnapshot()), schema="snaptide"
    )
    # It has percent signs, which are no parameters.
    op.get_bind().exec_driver_sql(
        _LEVELS.read_text("utf-8"), execution_options={"no_parameters": True}
    )


def downgrade() -> None:
    op.execute("DROP FUNCTION snaptide.repl_status(text, text)")
    op.execute("DROP VIEW snaptide.repl_level")
    op.execute("DROP FUNCTION snaptide.repl_waits(text, pg_snapshot)")
    op.drop_column("refresh_group", "unchanged_at", schema="snaptide")
