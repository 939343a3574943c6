"""Records the numbers of the master's columns for a queue, because names can change.

The next refresh fills them in.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql
from sqlalchemy.types import TypeEngine

revision = "0048"
down_revision = "0047"

_COLUMNS: dict[str, TypeEngine[Any]] = {
    "target_oid": sa.BigInteger(),
    "target_numbers": postgresql.ARRAY(sa.SmallInteger),
}


def upgrade() -> None:
    for name, kind in _COLUMNS.items():
        op.add_column("queue", sa.Column(name, kind), schema="snaptide")


def downgrade() -> None:
    for name in reversed(_COLUMNS):
        op.drop_column("queue", name, schema="snaptide")
