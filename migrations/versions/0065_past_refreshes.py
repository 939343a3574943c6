"""What the last refreshes did, and counts that only grow, for figures."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

revision = "0065"
down_revision = "0064"

_ROWS = ("rows_inserted", "rows_updated", "rows_deleted", "rows_held_back")


def _count(name: str) -> sa.Column[int]:
    zero = sa.text("0")
    return sa.Column(name, sa.BigInteger(), nullable=False, server_default=zero)


def upgrade() -> None:
    op.add_column("destination", _count("delivered"), schema="snaptide")
    empty = sa.text("'{}'::jsonb")
    held = sa.Column("held_back", JSONB(), nullable=False, server_default=empty)
    op.add_column("refresh_group", held, schema="snaptide")
    for name in _ROWS:
        op.add_column("refresh_group", _count(name), schema="snaptide")
    _make_refresh_run()
    _make_refresh_step()
    op.create_table(
        "purged_resolutions",
        sa.Column("method", sa.Text(), primary_key=True),
        sa.Column("records", sa.BigInteger(), nullable=False),
        schema="snaptide",
    )
    op.create_index(
        "resolution_record_method", "resolution_record", ["method"], schema="snaptide"
    )


def _make_refresh_run() -> None:
    op.create_table(
        "refresh_run",
        _of_group(),
        sa.Column("id", sa.BigInteger(), sa.Identity(), primary_key=True),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("first_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column(
            "refreshes", sa.BigInteger(), nullable=False, server_default=sa.text("1")
        ),
        sa.Column("longest", sa.Interval()),
        sa.Column("previous_at", sa.DateTime(timezone=True)),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("steps", JSONB(), nullable=False),
        sa.Column(
            "methods", ARRAY(sa.Text()), nullable=False, server_default=sa.text("'{}'")
        ),
        _count("inserted"),
        _count("updated"),
        _count("deleted"),
        _count("held_back"),
        sa.Column("error", sa.Text()),
        sa.CheckConstraint(
            "outcome IN ('refreshed', 'nothing new', 'failed')", name="outcome"
        ),
        schema="snaptide",
    )


def _make_refresh_step() -> None:
    op.create_table(
        "refresh_step",
        _of_group(),
        sa.Column("step", sa.Text(), primary_key=True),
        sa.Column("at_most", sa.Double(), primary_key=True, autoincrement=False),
        sa.Column("refreshes", sa.BigInteger(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        schema="snaptide",
    )


def _of_group() -> sa.Column[str]:
    group = sa.ForeignKey("snaptide.refresh_group.name", ondelete="CASCADE")
    return sa.Column("refresh_group", sa.Text(), group, primary_key=True)


def downgrade() -> None:
    op.drop_index("resolution_record_method", "resolution_record", schema="snaptide")
    for table in ("purged_resolutions", "refresh_step", "refresh_run"):
        op.drop_table(table, schema="snaptide")
    for name in (*_ROWS, "held_back"):
        op.drop_column("refresh_group", name, schema="snaptide")
    op.drop_column("destination", "delivered", schema="snaptide")
