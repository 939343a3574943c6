"""Grants with which sites push; functions that triggers call are not for everybody."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from sites.sessions.revisions import folder

revision = "0081"
down_revision = "0080"

_BACK = """
DO $$
DECLARE
    called regprocedure;
BEGIN
    FOR called IN
        SELECT p.oid FROM pg_proc p
        WHERE p.pronamespace = 'snaptide'::regnamespace AND p.prosecdef
          AND p.prorettype = 'trigger'::regtype AND pg_has_role(p.proowner, 'USAGE')
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO PUBLIC', called);
    END LOOP;
END
$$
"""


_FUNCTIONS = (
    *("known_types(jsonb)", "bound_login()", "may_change(int)", "granted_origins()"),
)


def upgrade() -> None:
    _run((folder() / "sql" / "trigger_functions.sql").read_text("utf-8"))
    op.add_column(
        "publication_grant",
        sa.Column("updatable", sa.Boolean(), nullable=False, server_default="false"),
        schema="snaptide",
    )
    _run((folder() / "sql" / "updatable_grants.sql").read_text("utf-8"))
    login = sa.Column(
        "login", sa.Text(), server_default=sa.text("snaptide.bound_login()")
    )
    op.add_column("error_transaction", login, schema="snaptide")


def downgrade() -> None:
    op.drop_column("error_transaction", "login", schema="snaptide")
    for function in _FUNCTIONS:
        op.execute(f"DROP FUNCTION snaptide.{function}")
    op.drop_column("publication_grant", "updatable", schema="snaptide")
    _run(_BACK)


def _run(script: str) -> None:
    # They have percent signs, which are no parameters.
    op.get_bind().exec_driver_sql(script, execution_options={"no_parameters": True})
