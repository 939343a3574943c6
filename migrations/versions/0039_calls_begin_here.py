"""Sends a procedure's call only to destinations of changes that begin at this site."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0039"
down_revision = "0038"

_SQL = Path(__file__).parent.parent / "sql"

#: The change that revision 0038 made to the function.
_AGAIN = (
    "DO UPDATE SET order_no = NULL\n",
    "DO UPDATE SET order_no = NULL, start_time = now()\n",
)
#: A route that only sends on other masters' changes takes no call: the rows that the
#: call changes reach its destination anyway.
_BEGIN_HERE = (
    "FROM snaptide.route r ORDER BY 1",
    "FROM snaptide.route r\n                   WHERE r.source = '' ORDER BY 1",
)


def upgrade() -> None:
    _define(_AGAIN, _BEGIN_HERE)


def downgrade() -> None:
    _define(_AGAIN)


def _define(*changes: tuple[str, str]) -> None:
    statement = (_SQL / "defer_call_checked.sql").read_text("utf-8")
    for before, since in changes:
        assert before in statement
        statement = statement.replace(before, since)
    op.get_bind().exec_driver_sql(statement, execution_options={"no_parameters": True})
