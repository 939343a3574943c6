"""A commit notifies whatever protocol its program speaks.

A statement with parameters that is a transaction of its own commits when its text is
gone already: the server has no current query then, and the condition was NULL.
"""

from __future__ import annotations

from alembic import op

revision = "0069"
down_revision = "0068"

_ANY = "AND current_query() !~*"
_NONE_TOO = "AND COALESCE(current_query(), '') !~*"

_REPLACE = """
DO $do$ BEGIN
    EXECUTE replace(
        pg_get_functiondef('snaptide.take_order()'::regprocedure), $${}$$, $${}$$);
END $do$
"""


def upgrade() -> None:
    op.execute(_REPLACE.format(_ANY, _NONE_TOO))


def downgrade() -> None:
    op.execute(_REPLACE.format(_NONE_TOO, _ANY))
