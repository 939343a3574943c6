"""Drops columns that were written and never read."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0050"
down_revision = "0049"

_TIME = sa.DateTime(timezone=True)
_COLUMNS = (
    ("activity", "phase", sa.Text(), "''"),
    ("activity", "updated_at", _TIME, "now()"),
    ("former_master", "left_at", _TIME, "now()"),
    ("peer", "met_at", _TIME, "now()"),
    ("push_marker", "applied_at", _TIME, None),
    ("push_marker", "stream", sa.Integer(), "0"),
    ("refresh_group", "created_at", _TIME, "now()"),
    ("registered_snapshot", "condition", sa.Text(), None),
    ("registered_snapshot", "refresh_group", sa.Text(), "''"),
    ("registered_snapshot", "registered_at", _TIME, "now()"),
    ("site_identity", "created_at", _TIME, "now()"),
    ("snapshot", "created_at", _TIME, "now()"),
)
_NOT_NULL = ("phase", "stream", "refresh_group")


def upgrade() -> None:
    for table, name, _, _ in _COLUMNS:
        op.drop_column(table, name, schema="snaptide")
    op.create_primary_key(
        "push_marker_pkey", "push_marker", ["origin_id"], schema="snaptide"
    )


def downgrade() -> None:
    for table, name, kind, default in _COLUMNS:
        given = sa.text(default) if default else None
        column: sa.Column[object] = sa.Column(
            name, kind, server_default=given, nullable=name not in _NOT_NULL
        )
        op.add_column(table, column, schema="snaptide")
    op.alter_column(
        "registered_snapshot", "refresh_group", server_default=None, schema="snaptide"
    )
    op.drop_constraint("push_marker_pkey", "push_marker", schema="snaptide")
    op.create_primary_key(
        "push_marker_pkey", "push_marker", ["origin_id", "stream"], schema="snaptide"
    )
