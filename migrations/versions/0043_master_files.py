"""What a refresh saw of its master table besides rows.

DDL that writes a table anew changes values, and no trigger sees it. Where nothing is
known, the next refresh compares all rows.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0043"
down_revision = "0042"

_COLUMNS = {"master_files": sa.BigInteger, "master_columns": sa.Text}


def upgrade() -> None:
    for name, kind in _COLUMNS.items():
        column = sa.Column(name, postgresql.ARRAY(kind))
        op.add_column("snapshot", column, schema="snaptide")


def downgrade() -> None:
    for name in reversed(_COLUMNS):
        op.drop_column("snapshot", name, schema="snaptide")
