"""Records the files and columns of a master table that the last refresh saw.

DDL that rewrites a table changes values, and no trigger sees it. If nothing is recorded
yet, the next refresh compares all rows.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0043"
down_revision = "0042"

_COLUMNS = {"master_files": sa.BigInteger, "master_columns": sa.Text}


def upgrade() -> None:
    for name, kind in _COLUMNS.items():
        column: sa.Column[Any] = sa.Column(name, postgresql.ARRAY(kind))
        op.add_column("snapshot", column, schema="snaptide")


def downgrade() -> None:
    for name in reversed(_COLUMNS):
        op.drop_column("snapshot", name, schema="snaptide")
