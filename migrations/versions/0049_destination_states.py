"""Keeps the states of destinations in a table of their own, with reason and time."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "0049"
down_revision = "0048"

_SQL = Path(__file__).parent.parent / "sql"
_FALSE = sa.text("false")

#: What the view of the backlog has shown of a destination, and shows since.
_COLUMNS = (
    ("d.disabled, d.max_lag_age", "{states} AS states,\n       d.max_lag_age"),
    (" d.invalid_since, d.invalid_reason,", ""),
)
_STATES = """(
           SELECT COALESCE(jsonb_agg(jsonb_build_object('state', s.state,
               'since', s.since, 'reason', s.reason) ORDER BY s.state, s.reason), '[]')
           FROM snaptide.destination_state s WHERE s.destination = d.name)"""

_UP = """
INSERT INTO snaptide.destination_state (destination, state, group_id, since, reason)
SELECT name, 'disabled', NULL::uuid, now(), 'unknown'
FROM snaptide.destination WHERE disabled
UNION ALL
SELECT d.name, 'joining', g.id, now(), 'group ' || g.name
FROM snaptide.destination d JOIN snaptide.replication_group g ON g.name = ANY(d.joins)
UNION ALL
SELECT name, CASE WHEN invalid_since IS NULL THEN 'excused' ELSE 'invalid' END,
       NULL, COALESCE(invalid_since, now()), COALESCE(invalid_reason, 'unknown')
FROM snaptide.destination WHERE excused OR invalid_since IS NOT NULL
"""

_DOWN = """
UPDATE snaptide.destination d SET
    disabled = EXISTS (SELECT FROM snaptide.destination_state s
                       WHERE s.destination = d.name AND s.state = 'disabled'),
    excused = EXISTS (SELECT FROM snaptide.destination_state s
                      WHERE s.destination = d.name AND s.state = 'excused'),
    joins = ARRAY(SELECT g.name FROM snaptide.destination_state s
                  JOIN snaptide.replication_group g ON g.id = s.group_id
                  WHERE s.destination = d.name AND s.state = 'joining'),
    (invalid_since, invalid_reason) = (
        SELECT s.since, s.reason FROM snaptide.destination_state s
        WHERE s.destination = d.name AND s.state = 'invalid')
"""


def upgrade() -> None:
    op.create_table(
        "destination_state",
        sa.Column("destination", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("group_id", sa.Uuid()),
        sa.Column(
            "since",
            sa.DateTime(timezone=True),
            server_default=sa.func.now(),
            nullable=False,
        ),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["destination"],
            ["snaptide.destination.name"],
            name="destination_state_destination_fkey",
            ondelete="CASCADE",
        ),
        sa.UniqueConstraint(
            "destination",
            "state",
            "group_id",
            name="destination_state_destination_state_group_id_key",
            postgresql_nulls_not_distinct=True,
        ),
        sa.CheckConstraint(
            "state IN ('disabled', 'excused', 'invalid', 'joining')",
            name="destination_state_state_check",
        ),
        schema="snaptide",
    )
    op.create_index(
        "destination_state_budget_key",
        "destination_state",
        ["destination"],
        unique=True,
        postgresql_where=sa.text("state IN ('excused', 'invalid')"),
        schema="snaptide",
    )
    op.execute(_UP)
    op.execute("DROP VIEW snaptide.defbacklog")
    for name in ("disabled", "joins", "excused", "invalid_since", "invalid_reason"):
        op.drop_column("destination", name, schema="snaptide")
    _show(*_COLUMNS)


def downgrade() -> None:
    for column in (
        sa.Column("disabled", sa.Boolean(), server_default=_FALSE, nullable=False),
        sa.Column("joins", ARRAY(sa.Text()), server_default="{}", nullable=False),
        sa.Column("excused", sa.Boolean(), server_default=_FALSE, nullable=False),
        sa.Column("invalid_since", sa.DateTime(timezone=True)),
        sa.Column("invalid_reason", sa.Text()),
    ):
        op.add_column("destination", column, schema="snaptide")
    op.execute(_DOWN)
    op.execute("DROP VIEW snaptide.defbacklog")
    op.drop_table("destination_state", schema="snaptide")
    _show()


def _show(*columns: tuple[str, str]) -> None:
    """Create the view of the backlog."""
    text = (_SQL / "backlog.sql").read_text("utf-8")
    view = text[text.index("CREATE VIEW snaptide.defbacklog") :]
    for before, since in columns:
        assert before in view
        view = view.replace(before, since.format(states=_STATES))
    op.execute(view)
