"""Ties schema versions to a group's id, because another group may begin lower."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"


def upgrade() -> None:
    op.add_column("group_schema", sa.Column("group_id", sa.Uuid()), schema="snaptide")
    op.execute(
        "UPDATE snaptide.group_schema SET group_id = r.id"
        " FROM snaptide.replication_group r WHERE r.name = replication_group"
    )
    op.execute("DELETE FROM snaptide.group_schema WHERE group_id IS NULL")
    op.alter_column("group_schema", "group_id", nullable=False, schema="snaptide")
    op.drop_column("group_schema", "replication_group", schema="snaptide")
    op.add_column("snapshot", sa.Column("schema_group", sa.Uuid()), schema="snaptide")


def downgrade() -> None:
    op.drop_column("snapshot", "schema_group", schema="snaptide")
    op.add_column(
        "group_schema", sa.Column("replication_group", sa.Text()), schema="snaptide"
    )
    op.execute(
        "UPDATE snaptide.group_schema SET replication_group = r.name"
        " FROM snaptide.replication_group r WHERE r.id = group_id"
    )
    op.execute("DELETE FROM snaptide.group_schema WHERE replication_group IS NULL")
    op.alter_column(
        "group_schema", "replication_group", nullable=False, schema="snaptide"
    )
    op.drop_column("group_schema", "group_id", schema="snaptide")
