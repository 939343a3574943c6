"""Lets triggers ask where a change comes from, and ignores settings of outsiders.

Only members of `snaptide_apply` can mark a transaction as coordinated.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0046"
down_revision = "0045"

_SQL = Path(__file__).parent.parent / "sql"

#: The change that revision 0041 made to the function.
_USERS_PREPARE = (
    "NOT BETWEEN 0 AND 99 THEN",
    (
        "NOT BETWEEN 0 AND 99\n"
        "       AND current_query() !~* '\\mprepare\\s+transaction\\M' THEN"
    ),
)
_MEMBERS = (
    "IF FOUND AND coordinated = 'site' THEN",
    (
        "IF FOUND AND coordinated = 'site'\n"
        "           AND pg_has_role(session_user, 'snaptide_apply', 'MEMBER') THEN"
    ),
)

#: The function shows captured calls, with values that the caller may not read.
_CAPTURED = """
DO $$
BEGIN
    IF to_regprocedure('snaptide.captured_calls(bigint, integer)') IS NOT NULL THEN
        REVOKE EXECUTE ON FUNCTION snaptide.captured_calls(bigint, integer) FROM PUBLIC;
        GRANT EXECUTE ON FUNCTION snaptide.captured_calls(bigint, integer)
            TO snaptide_apply;
    END IF;
END $$
"""


def upgrade() -> None:
    _order(_USERS_PREPARE, _MEMBERS)
    _run((_SQL / "comes_from.sql").read_text("utf-8"))
    _run(_CAPTURED)
    op.execute("GRANT USAGE ON SCHEMA snaptide TO PUBLIC")


def downgrade() -> None:
    op.execute("REVOKE USAGE ON SCHEMA snaptide FROM PUBLIC")
    op.execute("DROP FUNCTION snaptide.comes_from(), snaptide.comes_by()")
    _order(_USERS_PREPARE)


def _order(*changes: tuple[str, str]) -> None:
    """Define the function that draws a transaction's order number."""
    statement = (_SQL / "order_by_column.sql").read_text("utf-8")
    for before, since in changes:
        assert before in statement
        statement = statement.replace(before, since)
    _run(statement)


def _run(statements: str) -> None:
    op.get_bind().exec_driver_sql(statements, execution_options={"no_parameters": True})
