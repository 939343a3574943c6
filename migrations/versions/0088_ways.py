"""Contracts repair: sites note what each way of a refresh has cost, and choose."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0088"
down_revision = "0087"


def upgrade() -> None:
    ways = sa.Column("ways", JSONB, nullable=False, server_default=sa.text("'{}'"))
    op.add_column("refresh_run", ways, schema="snaptide")
    no = sa.text("false")
    repair = sa.Column("repair", sa.Boolean(), nullable=False, server_default=no)
    op.add_column("promise", repair, schema="snaptide")
    _breaches("'tell', 'repair', 'release'")


def downgrade() -> None:
    op.execute(
        "UPDATE snaptide.contract SET on_breach = 'tell' WHERE on_breach = 'repair'"
    )
    _breaches("'tell', 'release'")
    op.drop_column("promise", "repair", schema="snaptide")
    op.drop_column("refresh_run", "ways", schema="snaptide")


def _breaches(words: str) -> None:
    op.drop_constraint(op.f("contract_on_breach_check"), "contract", schema="snaptide")
    check = f"on_breach IN ({words})"
    op.create_check_constraint("on_breach", "contract", check, schema="snaptide")
