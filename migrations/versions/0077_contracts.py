"""A master keeps contracts about how old what a site shows may be."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

from sites.transfer.types import PgSnapshot

revision = "0077"
down_revision = "0076"

_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "position_time",
        sa.Column("id", sa.BigInteger(), sa.Identity(), primary_key=True),
        sa.Column("position", PgSnapshot, nullable=False),
        sa.Column("at", _MOMENT, nullable=False),
        sa.Column("clock", sa.Text(), nullable=False),
        sa.Column("reading", sa.Double(), nullable=False),
        sa.Column("passed", sa.Double(), nullable=False),
        schema="snaptide",
    )
    op.create_table(
        "contract",
        sa.Column("id", sa.Integer(), sa.Identity(), primary_key=True),
        sa.Column("site_id", sa.Uuid(), nullable=False),
        sa.Column("site_name", sa.Text(), nullable=False),
        sa.Column("refresh_group", sa.Text(), nullable=False),
        sa.Column("snapshots", ARRAY(sa.Text()), nullable=False),
        sa.Column("visible_within", sa.Interval()),
        sa.Column("may_be_away", sa.Interval()),
        sa.Column("log_share", sa.BigInteger()),
        sa.Column("on_breach", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False, server_default="kept"),
        sa.Column("reason", sa.Text()),
        sa.Column("since", _MOMENT, nullable=False, server_default=sa.func.now()),
        sa.Column("looked_at", _MOMENT),
        sa.Column("age", sa.Double()),
        sa.Column("log_bytes", sa.BigInteger()),
        sa.Column("shown", ARRAY(sa.Text()), nullable=False, server_default="{}"),
        sa.Column("waits_since", sa.Double()),
        sa.UniqueConstraint("site_id", "refresh_group"),
        sa.CheckConstraint(
            "state IN ('kept', 'late', 'broken', 'released')", name="state"
        ),
        sa.CheckConstraint("on_breach IN ('tell', 'release')", name="on_breach"),
        schema="snaptide",
    )
    to = sa.ForeignKey("snaptide.contract.id", ondelete="CASCADE")
    op.create_table(
        "contract_change",
        sa.Column("contract_id", sa.Integer(), to, primary_key=True),
        sa.Column("id", sa.BigInteger(), sa.Identity(), primary_key=True),
        sa.Column("at", _MOMENT, nullable=False, server_default=sa.func.now()),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text()),
        schema="snaptide",
    )


def downgrade() -> None:
    for name in ("contract_change", "contract", "position_time"):
        op.drop_table(name, schema="snaptide")
