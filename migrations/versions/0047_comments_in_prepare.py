"""A comment may stand in the statement by which a user prepares a transaction."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0047"
down_revision = "0046"

_SQL = Path(__file__).parent.parent / "sql"

_ASKED = "NOT BETWEEN 0 AND 99 THEN"
#: What the client sent, wherever in it that stands: no function is told how its
#: transaction ends. Who is taken for one that prepares wakes nobody, and the next does.
_ASKED_TOO = "NOT BETWEEN 0 AND 99\n       AND current_query() !~* '{}' THEN"
_WITHOUT_COMMENTS = r"\mprepare\s+transaction\M"
_WITH_COMMENTS = r"\mprepare(\s|--[^\n\r]*|/\*.*\*/)+transaction\M"

#: As revision 0046 left the function.
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
    """Define what draws a transaction's place in the order."""
    statement = (_SQL / "order_by_column.sql").read_text("utf-8")
    for before, since in ((_ASKED, _ASKED_TOO.format(prepares)), _MEMBERS):
        assert before in statement
        statement = statement.replace(before, since)
    op.get_bind().exec_driver_sql(statement, execution_options={"no_parameters": True})
