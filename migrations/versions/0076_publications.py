"""Publications at a master, and the sites to which they are granted."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from sites.sessions.revisions import run_script

revision = "0076"
down_revision = "0075"


def upgrade() -> None:
    op.create_table(
        "publication",
        sa.Column("id", sa.Integer(), sa.Identity(), primary_key=True),
        sa.Column("name", sa.Text(), nullable=False, unique=True),
        schema="snaptide",
    )
    op.create_table(
        "publication_table",
        _publication(),
        sa.Column("table_schema", sa.Text(), primary_key=True),
        sa.Column("table_name", sa.Text(), primary_key=True),
        sa.Column("columns", ARRAY(sa.Text())),
        sa.Column("condition", JSONB(), nullable=False),
        schema="snaptide",
    )
    op.create_table(
        "publication_grant",
        _publication(),
        sa.Column("site_name", sa.Text(), primary_key=True),
        sa.Column("login", sa.Text(), nullable=False),
        sa.Column("parameters", JSONB(), nullable=False),
        sa.Column(
            "granted_at", sa.DateTime(timezone=True), server_default=sa.func.now()
        ),
        sa.UniqueConstraint("publication_id", "login"),
        schema="snaptide",
    )
    run_script(op.get_bind(), "publications")


def downgrade() -> None:
    for function in ("granted(int)", "granted_site()", "is_granted(text, text)"):
        op.execute(f"DROP FUNCTION snaptide.{function}")
    for table in ("publication_grant", "publication_table", "publication"):
        op.drop_table(table, schema="snaptide")


def _publication() -> sa.Column[int]:
    to = sa.ForeignKey("snaptide.publication.id", ondelete="CASCADE")
    return sa.Column("publication_id", sa.Integer(), to, primary_key=True)
