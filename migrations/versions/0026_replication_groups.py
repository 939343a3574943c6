"""Creates the tables of replication groups, with their masters, tables and paths."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"

STATUS = "status IN ('normal', 'quiescing', 'quiesced')"
TARGET_TYPE = (
    "target_type IN ('full_peer', 'protected_read_only', 'unprotected_read_only')"
)


PARTS = ("group_path", "group_table", "group_master")


def upgrade() -> None:
    op.create_table(
        "replication_group",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("definition_site", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column(
            "status", sa.Text(), server_default=sa.text("'normal'"), nullable=False
        ),
        sa.Column("status_by", sa.Text(), nullable=True),
        sa.Column(
            "status_since",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=True,
        ),
        sa.CheckConstraint(STATUS, name=op.f("replication_group_status_check")),
        sa.PrimaryKeyConstraint("name", name=op.f("replication_group_pkey")),
        schema="snaptide",
    )
    _part(
        "group_master",
        ["master"],
        sa.Column("master", sa.Text(), nullable=False),
        sa.Column(
            "target_type",
            sa.Text(),
            server_default=sa.text("'full_peer'"),
            nullable=False,
        ),
        sa.CheckConstraint(TARGET_TYPE, name=op.f("group_master_target_type_check")),
    )
    _part(
        "group_table",
        ["table_schema", "table_name"],
        sa.Column("table_schema", sa.Text(), nullable=False),
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.UniqueConstraint(
            "table_schema",
            "table_name",
            name=op.f("group_table_table_schema_table_name_key"),
        ),
    )
    _part(
        "group_path",
        ["source", "to_master"],
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("to_master", sa.Text(), nullable=False),
        sa.Column("from_master", sa.Text(), nullable=False),
    )
    op.create_table(
        "unchecked_table",
        sa.Column("table_schema", sa.Text(), nullable=False),
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint(
            "table_schema", "table_name", name=op.f("unchecked_table_pkey")
        ),
        schema="snaptide",
    )
    op.create_table(
        "arrival",
        sa.Column("replication_group", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("sender", sa.Text(), nullable=False),
        sa.Column("transactions", sa.BigInteger(), nullable=False),
        sa.Column(
            "last_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=True,
        ),
        sa.PrimaryKeyConstraint(
            "replication_group", "source", "sender", name=op.f("arrival_pkey")
        ),
        schema="snaptide",
    )


def downgrade() -> None:
    for table in ("arrival", "unchecked_table", *PARTS, "replication_group"):
        op.drop_table(table, schema="snaptide")


def _part(name: str, key: list[str], *parts: sa.schema.SchemaItem) -> None:
    op.create_table(
        name,
        sa.Column("group_name", sa.Text(), nullable=False),
        *parts,
        sa.ForeignKeyConstraint(
            ["group_name"],
            ["snaptide.replication_group.name"],
            name=op.f(f"{name}_group_name_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("group_name", *key, name=op.f(f"{name}_pkey")),
        schema="snaptide",
    )
