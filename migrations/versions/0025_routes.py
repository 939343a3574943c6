"""Lets queues have several destinations: adds their routes, and origins of calls."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0025"
down_revision = "0024"

TO_ROUTES = """
INSERT INTO snaptide.route (queue_id, destination)
SELECT id, destination FROM snaptide.queue
"""
FROM_ROUTES = """
UPDATE snaptide.queue q SET destination = r.destination
FROM snaptide.route r WHERE r.queue_id = q.id
"""


def upgrade() -> None:
    op.create_table(
        "route",
        sa.Column("queue_id", sa.Integer(), nullable=False),
        sa.Column("destination", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.ForeignKeyConstraint(
            ["queue_id"],
            ["snaptide.queue.id"],
            name=op.f("route_queue_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "queue_id", "destination", "source", name=op.f("route_pkey")
        ),
        schema="snaptide",
    )
    op.execute(TO_ROUTES)
    op.drop_column("queue", "destination", schema="snaptide")
    op.alter_column("queue", "extra_table", nullable=True, schema="snaptide")
    _add("queue", sa.Column("replication_group", sa.Text()))
    _add("deferred_transaction", sa.Column("origin", sa.Text()))
    _add("deferred_transaction", sa.Column("origin_transaction", sa.Text()))
    _add("deferred_transaction", sa.Column("made_at", sa.DateTime(timezone=True)))
    for table in ("deferred_transaction", "error_transaction"):
        _add(table, sa.Column("sources", JSONB()))


def downgrade() -> None:
    for table in ("deferred_transaction", "error_transaction"):
        op.drop_column(table, "sources", schema="snaptide")
    for column in ("origin", "origin_transaction", "made_at"):
        op.drop_column("deferred_transaction", column, schema="snaptide")
    op.drop_column("queue", "replication_group", schema="snaptide")
    _add("queue", sa.Column("destination", sa.Text()))
    op.execute(FROM_ROUTES)
    for column in ("destination", "extra_table"):
        op.alter_column("queue", column, nullable=False, schema="snaptide")
    op.drop_table("route", schema="snaptide")


def _add(table: str, column: sa.Column[object]) -> None:
    op.add_column(table, column, schema="snaptide")
