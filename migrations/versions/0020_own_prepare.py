"""Lets users prepare transactions of their own: only coordinated ones are refused."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0020"
down_revision = "0019"

FUNCTION = Path(__file__).parent.parent / "sql" / "order_of_coordinated.sql"


def upgrade() -> None:
    _execute(FUNCTION.read_text("utf-8"))


def downgrade() -> None:
    _execute(FUNCTION.read_text("utf-8").replace("= 'site'", "= 'on'"))


def _execute(statement: str) -> None:
    op.get_bind().exec_driver_sql(statement, execution_options={"no_parameters": True})
