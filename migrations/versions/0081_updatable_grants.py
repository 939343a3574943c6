"""Trigger functions of ours are called by triggers of ours, and by no others."""

from __future__ import annotations

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


def upgrade() -> None:
    _run((folder() / "sql" / "trigger_functions.sql").read_text("utf-8"))


def downgrade() -> None:
    _run(_BACK)


def _run(script: str) -> None:
    # They have percent signs, which are no parameters.
    op.get_bind().exec_driver_sql(script, execution_options={"no_parameters": True})
