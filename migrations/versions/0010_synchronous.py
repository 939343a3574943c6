"""Adds synchronous propagation: decisions, and how a group propagates."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import op

from deferred.queues.captured import replace_captured_calls
from sites.types import Xid8

revision = "0010"
down_revision = "0009"

FALSE = sa.text("false")
EXTRAS = sa.text("SELECT extra_table FROM snaptide.snapshot")


def upgrade() -> None:
    op.add_column(
        "queue",
        sa.Column("synchronous", sa.Boolean(), server_default=FALSE, nullable=False),
        schema="snaptide",
    )
    op.add_column(
        "refresh_group",
        sa.Column("synchronous", sa.Boolean(), server_default=FALSE, nullable=False),
        schema="snaptide",
    )
    op.create_table(
        "decision",
        sa.Column("xid", Xid8(), nullable=False),
        sa.Column("gid", sa.Text(), nullable=False),
        sa.Column("masters", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column(
            "decided_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=True,
        ),
        sa.PrimaryKeyConstraint("xid", name=op.f("decision_pkey")),
        schema="snaptide",
    )
    op.create_table(
        "heuristic_decision",
        sa.Column("gid", sa.Text(), nullable=False),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("decided_by", sa.Text(), nullable=False),
        sa.Column(
            "decided_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=True,
        ),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "decision IN ('commit', 'rollback')",
            name=op.f("heuristic_decision_decision_check"),
        ),
        sa.CheckConstraint(
            "outcome IN ('commit', 'rollback')",
            name=op.f("heuristic_decision_outcome_check"),
        ),
        sa.PrimaryKeyConstraint("gid", name=op.f("heuristic_decision_pkey")),
        schema="snaptide",
    )
    connection = op.get_bind()
    for table in connection.scalars(EXTRAS):
        op.add_column(table, sa.Column("master_xid", Xid8()), schema="snaptide")
    connection.exec_driver_sql(
        (Path(__file__).parent.parent / "sql" / "coordinated_order.sql").read_text(
            "utf-8"
        ),
        execution_options={"no_parameters": True},
    )
    # The end of the upgrade replaces this function with one that reads all queues.
    replace_captured_calls(connection, [])


def downgrade() -> None:
    op.execute("DROP FUNCTION snaptide.captured_calls(bigint, integer)")
    op.drop_table("heuristic_decision", schema="snaptide")
    op.drop_table("decision", schema="snaptide")
    op.drop_column("refresh_group", "synchronous", schema="snaptide")
    op.drop_column("queue", "synchronous", schema="snaptide")
    connection = op.get_bind()
    for table in connection.scalars(EXTRAS):
        op.drop_column(table, "master_xid", schema="snaptide")
