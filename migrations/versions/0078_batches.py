"""A row for each batch says how much of it was answered, instead of each delivery's."""

import sqlalchemy as sa
from alembic import op

from sites.sessions.revisions import run_script, script

revision = "0078"
down_revision = "0077"

_FILL = """
INSERT INTO snaptide.batch (destination, number, answered, answered_at)
SELECT d.destination, d.batch,
       COALESCE(max(d.order_no) FILTER (WHERE d.delivered_at IS NOT NULL), 0),
       max(d.delivered_at)
FROM snaptide.delivery d
JOIN snaptide.destination t ON t.name = d.destination
WHERE d.batch IS NOT NULL
GROUP BY d.destination, d.batch
"""

_FILL_BACK = """
UPDATE snaptide.delivery d
SET delivered_at = b.answered_at
FROM snaptide.batch b
WHERE b.destination = d.destination AND b.number = d.batch AND b.answered >= d.order_no
"""


def upgrade() -> None:
    to = sa.ForeignKey("snaptide.destination.name", ondelete="CASCADE")
    op.create_table(
        "batch",
        sa.Column("destination", sa.Text(), to, primary_key=True),
        sa.Column("number", sa.BigInteger(), primary_key=True),
        sa.Column("answered", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("answered_at", sa.DateTime(timezone=True)),
        schema="snaptide",
    )
    op.execute(_FILL)
    run_script(op.get_bind(), "batch_views")
    op.drop_column("delivery", "delivered_at", schema="snaptide")
    op.execute("ALTER TABLE snaptide.delivery RESET (fillfactor)")


def downgrade() -> None:
    op.execute("ALTER TABLE snaptide.delivery SET (fillfactor = 50)")
    moment = sa.DateTime(timezone=True)
    op.add_column("delivery", sa.Column("delivered_at", moment), schema="snaptide")
    op.execute(_FILL_BACK)
    _views_as_before()
    op.drop_table("batch", schema="snaptide")


def _views_as_before() -> None:
    for name in ("deftrandest", "defbacklog"):
        _, _, rest = script("views").partition(f"CREATE VIEW snaptide.{name} ")
        view = rest.partition(";")[0]
        op.execute(f"CREATE OR REPLACE VIEW snaptide.{name} {view}")
