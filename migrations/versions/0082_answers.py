"""Contracts promise answers, which sites keep in view, and look at each snapshot."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

revision = "0082"
down_revision = "0081"

#: A position has no space.
_SEEN = r"""
UPDATE snaptide.contract c SET seen = found.seen
FROM (SELECT b.id, jsonb_object_agg(regexp_replace(one, ' [^ ]*$', ''),
        jsonb_build_array(regexp_replace(one, '^.* ', ''), b.waits_since)) AS seen
    FROM snaptide.contract b, unnest(b.shown) one GROUP BY b.id) found
WHERE found.id = c.id
"""
_SHOWN = """
UPDATE snaptide.contract c SET shown = found.shown, waits_since = found.since
FROM (SELECT b.id, min((one.value ->> 1)::float8) AS since,
        array_agg(one.key || ' ' || (one.value ->> 0) ORDER BY one.key) AS shown
    FROM snaptide.contract b, jsonb_each(b.seen) one GROUP BY b.id) found
WHERE found.id = c.id
"""
_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.add_column(
        "contract", sa.Column("answered_within", sa.Interval()), schema="snaptide"
    )
    seen = sa.Column("seen", JSONB, nullable=False, server_default=sa.text("'{}'"))
    op.add_column("contract", seen, schema="snaptide")
    op.execute(_SEEN)
    for name in ("shown", "waits_since"):
        op.drop_column("contract", name, schema="snaptide")
    op.create_table(
        "promise",
        sa.Column("refresh_group", sa.Text(), primary_key=True),
        sa.Column("visible_within", sa.Interval()),
        sa.Column("answered_within", sa.Interval()),
        sa.Column("state", sa.Text(), nullable=False, server_default="kept"),
        sa.Column("since", _MOMENT, nullable=False, server_default=sa.func.now()),
        sa.Column("looked_at", _MOMENT),
        sa.Column("age", sa.Double()),
        sa.Column("waits", sa.BigInteger()),
        sa.Column("waits_since", sa.Double()),
        sa.ForeignKeyConstraint(
            ["refresh_group"], ["snaptide.refresh_group.name"], ondelete="CASCADE"
        ),
        sa.CheckConstraint("state IN ('kept', 'late')", name="state"),
        schema="snaptide",
    )


def downgrade() -> None:
    op.drop_table("promise", schema="snaptide")
    shown = sa.Column("shown", ARRAY(sa.Text()), nullable=False, server_default="{}")
    op.add_column("contract", shown, schema="snaptide")
    op.add_column("contract", sa.Column("waits_since", sa.Double()), schema="snaptide")
    op.execute(_SHOWN)
    op.drop_column("contract", "seen", schema="snaptide")
    op.drop_column("contract", "answered_within", schema="snaptide")
