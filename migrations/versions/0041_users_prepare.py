"""Sends no notification in a transaction that its user is going to prepare.

PostgreSQL refuses to prepare a transaction that has notified.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0041"
down_revision = "0040"

_SQL = Path(__file__).parent.parent / "sql"

_ASKED = "NOT BETWEEN 0 AND 99 THEN"
#: Look for PREPARE TRANSACTION anywhere in the text that the client sent.
_ASKED_TOO = (
    "NOT BETWEEN 0 AND 99\n"
    "       AND current_query() !~* '\\mprepare\\s+transaction\\M' THEN"
)


def upgrade() -> None:
    _define((_ASKED, _ASKED_TOO))


def downgrade() -> None:
    _define()


def _define(*changes: tuple[str, str]) -> None:
    statement = (_SQL / "order_by_column.sql").read_text("utf-8")
    for before, since in changes:
        assert before in statement
        statement = statement.replace(before, since)
    op.get_bind().exec_driver_sql(statement, execution_options={"no_parameters": True})
