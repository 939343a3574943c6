"""Recognises PREPARE TRANSACTION with comments between its words."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0047"
down_revision = "0046"

_SQL = Path(__file__).parent.parent / "sql"

_ASKED = "NOT BETWEEN 0 AND 99 THEN"
#: Look for PREPARE TRANSACTION anywhere in the text that the client sent, because no
#: function can see how its transaction ends. After a false match, this transaction
#: wakes no pusher, but the next one does.
_ASKED_TOO = "NOT BETWEEN 0 AND 99\n       AND current_query() !~* '{}' THEN"
_WITHOUT_COMMENTS = r"\mprepare\s+transaction\M"
_WITH_COMMENTS = r"\mprepare(\s|--[^\n\r]*|/\*.*\*/)+transaction\M"

#: The change that revision 0046 made to the function.
_MEMBERS = (
    "IF FOUND AND coordinated = 'site' THEN",
    (
        "IF FOUND AND coordinated = 'site'\n"
        "           AND pg_has_role(session_user, 'snaptide_apply', 'MEMBER') THEN"
    ),
)


def upgrade() -> None:
    _order(_WITH_COMMENTS)


def downgrade() -> None:
    _order(_WITHOUT_COMMENTS)


def _order(prepares: str) -> None:
    """Define the function that draws a transaction's order number."""
    statement = (_SQL / "order_by_column.sql").read_text("utf-8")
    for before, since in ((_ASKED, _ASKED_TOO.format(prepares)), _MEMBERS):
        assert before in statement
        statement = statement.replace(before, since)
    op.get_bind().exec_driver_sql(statement, execution_options={"no_parameters": True})
