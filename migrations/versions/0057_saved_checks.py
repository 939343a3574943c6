"""Checks that are saved at their site, and that schedules may ask for."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from sites.transfer.types import PgSnapshot

revision = "0057"
down_revision = "0056"

_VIEWS = Path(__file__).parent.parent / "sql" / "check_views.sql"
_KIND = "schedule_kind_check"


def upgrade() -> None:
    op.create_table(
        "check_run",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("began_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("condition", sa.Text()),
        sa.Column("columns", ARRAY(sa.Text()), nullable=False),
        sa.Column("most", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="check_run_pkey"),
        schema="snaptide",
    )
    _snapshots()
    _differences()
    op.execute(_VIEWS.read_text("utf-8"))
    _allow("kind IN ('push', 'refresh', 'purge', 'check')")


def _snapshots() -> None:
    op.create_table(
        "check_snapshot",
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("snapshot", sa.Text(), nullable=False),
        sa.Column("no", sa.Integer(), nullable=False),
        sa.Column("refresh_group", sa.Text(), nullable=False),
        sa.Column("master", sa.Text(), nullable=False),
        sa.Column("master_table", sa.Text(), nullable=False),
        sa.Column("position", PgSnapshot()),
        sa.Column("moment_here", PgSnapshot()),
        sa.Column("moment_master", PgSnapshot()),
        sa.Column("rows_master", sa.BigInteger(), nullable=False),
        sa.Column("rows_here", sa.BigInteger(), nullable=False),
        sa.Column("counts", JSONB(), nullable=False),
        sa.Column("unproven", sa.Text()),
        sa.PrimaryKeyConstraint("run_id", "snapshot", name="check_snapshot_pkey"),
        sa.ForeignKeyConstraint(
            ["run_id"],
            ["snaptide.check_run.id"],
            name="check_snapshot_run_id_fkey",
            ondelete="CASCADE",
        ),
        schema="snaptide",
    )
    op.create_index(
        "check_snapshot_snapshot",
        "check_snapshot",
        ["snapshot", "run_id"],
        schema="snaptide",
    )


def _differences() -> None:
    op.create_table(
        "check_difference",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("snapshot", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("key", sa.JSON(), nullable=False),
        sa.Column("columns", ARRAY(sa.Text()), nullable=False),
        sa.Column("row_master", sa.JSON()),
        sa.Column("row_here", sa.JSON()),
        sa.Column("detail", sa.Text()),
        sa.Column("transaction_id", sa.Text()),
        sa.Column("transaction_began_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("id", name="check_difference_pkey"),
        sa.ForeignKeyConstraint(
            ["run_id", "snapshot"],
            ["snaptide.check_snapshot.run_id", "snaptide.check_snapshot.snapshot"],
            name="check_difference_run_id_snapshot_fkey",
            ondelete="CASCADE",
        ),
        sa.CheckConstraint(
            "kind IN ('missing', 'extra', 'differs')",
            name=op.f("check_difference_kind_check"),
        ),
        schema="snaptide",
    )
    op.create_index(
        "check_difference_run",
        "check_difference",
        ["run_id", "snapshot"],
        schema="snaptide",
    )


def downgrade() -> None:
    op.execute("DELETE FROM snaptide.schedule WHERE kind = 'check'")
    _allow("kind IN ('push', 'refresh', 'purge')")
    for view in ("defchecklocation", "defcheckrow"):
        op.execute(f"DROP VIEW snaptide.{view}")
    for table in ("check_difference", "check_snapshot", "check_run"):
        op.drop_table(table, schema="snaptide")


def _allow(kinds: str) -> None:
    op.drop_constraint(op.f(_KIND), "schedule", schema="snaptide")
    op.create_check_constraint(op.f(_KIND), "schedule", kinds, schema="snaptide")
