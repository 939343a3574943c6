"""Creates the dictionary views."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0008"
down_revision = "0007"

VIEWS = ("defschedule", "deferror", "deftran", "deftrandest", "defcall")


def upgrade() -> None:
    text = Path(__file__).parent.parent / "sql" / "views.sql"
    op.get_bind().exec_driver_sql(
        text.read_text("utf-8"), execution_options={"no_parameters": True}
    )


def downgrade() -> None:
    for view in VIEWS:
        op.execute(f'DROP VIEW snaptide."{view}"')
