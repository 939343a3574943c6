"""Transactions get their order whatever a backslash means in the session.

With standard_conforming_strings = off, the pattern of a plain string is another one,
and the commit of each recorded change failed.
"""

from __future__ import annotations

from alembic import op

revision = "0063"
down_revision = "0062"

_PLAIN = r"'\mprepare(\s|--[^\n\r]*|/\*.*\*/)+transaction\M'"
_ESCAPED = "E" + _PLAIN.replace("\\", "\\\\")

_REPLACE = """
DO $do$ BEGIN
    EXECUTE replace(
        pg_get_functiondef('snaptide.take_order()'::regprocedure), $${}$$, $${}$$);
END $do$
"""


def upgrade() -> None:
    op.execute(_REPLACE.format(_PLAIN, _ESCAPED))


def downgrade() -> None:
    op.execute(_REPLACE.format(_ESCAPED, _PLAIN))
