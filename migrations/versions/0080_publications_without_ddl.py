"""Publications whose sites do not follow DDL of their master."""

import sqlalchemy as sa
from alembic import op

revision = "0080"
down_revision = "0079"

#: What a login of a site sees of `site_ddl`, where there are publications.
_BINDING = """
DO $$ BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_policy
               WHERE polrelid = 'snaptide.site_ddl'::regclass
                 AND polname = 'snaptide$site') THEN
        ALTER POLICY "snaptide$site" ON snaptide.site_ddl
            USING (snaptide.is_granted(table_schema, table_name){});
    END IF;
END $$
"""


def upgrade() -> None:
    follow = sa.Column("ddl", sa.Boolean(), nullable=False, server_default=sa.true())
    op.add_column("publication", follow, schema="snaptide")
    hidden = sa.Column(
        "withheld", sa.Boolean(), nullable=False, server_default=sa.false()
    )
    op.add_column("site_ddl", hidden, schema="snaptide")
    op.execute(_BINDING.format(" AND NOT withheld"))


def downgrade() -> None:
    op.execute(_BINDING.format(""))
    # Sites that were not to follow it would see it. Others that have not yet stay
    # behind, and `snaptide site diff` says so.
    op.execute("DELETE FROM snaptide.site_ddl WHERE withheld")
    op.drop_column("site_ddl", "withheld", schema="snaptide")
    op.drop_column("publication", "ddl", schema="snaptide")
