"""Adds calls of procedures, which sites queue, and destinations allow or park."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from deferred.queues import views
from sites.types import Xid8

revision = "0023"
down_revision = "0022"

_HERE = Path(__file__).parent.parent / "sql"


def upgrade() -> None:
    op.create_table(
        "procedure_call",
        sa.Column("call_no", sa.BigInteger(), nullable=False),
        sa.Column("xid", Xid8(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("destinations", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("arguments", postgresql.JSONB(), nullable=False),
        sa.Column("ran_here", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("call_no", name=op.f("procedure_call_pkey")),
        schema="snaptide",
    )
    op.create_index(
        op.f("procedure_call_xid_idx"), "procedure_call", ["xid"], schema="snaptide"
    )
    op.create_table(
        "allowed_procedure",
        sa.Column("schema_name", sa.Text(), nullable=False),
        sa.Column("procedure_name", sa.Text(), nullable=False),
        sa.Column(
            "allowed_by",
            sa.Text(),
            server_default=sa.text("SESSION_USER"),
            nullable=False,
        ),
        sa.Column(
            "allowed_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=True,
        ),
        sa.PrimaryKeyConstraint(
            "schema_name", "procedure_name", name=op.f("allowed_procedure_pkey")
        ),
        schema="snaptide",
    )
    op.create_table(
        "error_procedure",
        sa.Column("error_id", sa.BigInteger(), nullable=False),
        sa.Column("call_no", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("arguments", postgresql.JSONB(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint(
            "error_id", "call_no", name=op.f("error_procedure_pkey")
        ),
        schema="snaptide",
    )
    _run("procedure_calls.sql")
    _run("defer_call.sql")


def downgrade() -> None:
    # `site init` of the older version makes these views show its queues again.
    views.replace_defcall(op.get_bind(), [], procedures=False)
    views.replace_defload(op.get_bind(), [], procedures=False)
    _run("procedure_calls_down.sql")
    for table in ("error_procedure", "allowed_procedure", "procedure_call"):
        op.drop_table(table, schema="snaptide")


def _run(file: str) -> None:
    op.get_bind().exec_driver_sql(
        (_HERE / file).read_text("utf-8"), execution_options={"no_parameters": True}
    )
