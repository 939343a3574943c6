"""Refuses calls of procedures with arguments that destinations cannot read."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0028"
down_revision = "0027"

_SQL = Path(__file__).parent.parent / "sql"


def upgrade() -> None:
    _run("defer_call_checked.sql")


def downgrade() -> None:
    _run("defer_call.sql")


def _run(file: str) -> None:
    op.get_bind().exec_driver_sql(
        (_SQL / file).read_text("utf-8"), execution_options={"no_parameters": True}
    )
