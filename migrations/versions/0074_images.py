"""Images of master tables keep their logs; a snapshot knows which one filled it."""

import sqlalchemy as sa
from alembic import op

revision = "0074"
down_revision = "0073"

# A program of before would take it for a snapshot of a site, and never let go of it.
_FORGET = """
DELETE FROM snaptide.registered_snapshot
WHERE site_id IN (SELECT id FROM snaptide.image)
"""


def upgrade() -> None:
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "image",
        sa.Column("id", sa.Uuid(), primary_key=True),
        sa.Column("name", sa.Text(), nullable=False, unique=True),
        sa.Column("began_at", moment, nullable=False, server_default=sa.func.now()),
        sa.Column("made_at", moment),
        sa.Column("expires_at", moment, nullable=False),
        schema="snaptide",
    )
    op.add_column("snapshot", sa.Column("image", sa.Uuid()), schema="snaptide")


def downgrade() -> None:
    op.execute(_FORGET)
    op.drop_column("snapshot", "image", schema="snaptide")
    op.drop_table("image", schema="snaptide")
