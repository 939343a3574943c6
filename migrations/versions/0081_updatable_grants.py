"""Grants with which sites push; functions that triggers call are not for everybody."""

import sqlalchemy as sa
from alembic import op

from sites.sessions.revisions import run_script

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

_CALLED = "known_types(jsonb)", "bound_login()", "may_change(int)", "granted_origins()"


def upgrade() -> None:
    run_script(op.get_bind(), "trigger_functions")
    op.add_column(
        "publication_grant",
        sa.Column("updatable", sa.Boolean(), nullable=False, server_default="false"),
        schema="snaptide",
    )
    run_script(op.get_bind(), "updatable_grants")
    login = sa.Column(
        "login", sa.Text(), server_default=sa.text("snaptide.bound_login()")
    )
    op.add_column("error_transaction", login, schema="snaptide")


def downgrade() -> None:
    op.drop_column("error_transaction", "login", schema="snaptide")
    for function in _CALLED:
        op.execute(f"DROP FUNCTION snaptide.{function}")
    op.drop_column("publication_grant", "updatable", schema="snaptide")
    op.execute(_BACK)
