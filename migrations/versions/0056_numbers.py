"""Numbers of a site's own: the ledger of leases, and what a default draws from."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0056"
down_revision = "0055"

_SQL = Path(__file__).parent.parent / "sql" / "next_number.sql"
_NOW = sa.func.now()


def upgrade() -> None:
    _ledger()
    _columns()
    op.get_bind().exec_driver_sql(
        _SQL.read_text("utf-8"), execution_options={"no_parameters": True}
    )


def _ledger() -> None:
    op.create_table(
        "number_lease",
        sa.Column("site_id", sa.Uuid(), nullable=False),
        sa.Column("site_name", sa.Text(), nullable=False),
        sa.Column("incarnation", sa.Uuid(), nullable=False),
        sa.Column("table_schema", sa.Text(), nullable=False),
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.Column("column_name", sa.Text(), nullable=False),
        sa.Column("sequence", sa.Text(), nullable=False),
        sa.Column("first", sa.BigInteger(), nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column(
            "leased_at", sa.DateTime(timezone=True), server_default=sa.func.now()
        ),
        sa.Column("returned_from", sa.BigInteger()),
        sa.PrimaryKeyConstraint("sequence", "first", name="number_lease_pkey"),
        schema="snaptide",
    )


def _columns() -> None:
    op.create_table(
        "numbered_column",
        sa.Column("id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("snapshot", sa.Text(), nullable=False),
        sa.Column("column_name", sa.Text(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("master", sa.Text(), nullable=False),
        sa.Column("table_schema", sa.Text(), nullable=False),
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False, server_default="1000"),
        sa.Column("per_day", sa.Double(), nullable=False, server_default="0"),
        sa.Column("measured_at", sa.DateTime(timezone=True), server_default=_NOW),
        sa.Column(
            "measured_ticket", sa.BigInteger(), nullable=False, server_default="0"
        ),
        sa.Column("told_to", sa.Uuid()),
        sa.Column("last_error", sa.Text()),
        sa.CheckConstraint(
            "method IN ('lease', 'uuidv7')", name="numbered_column_method_check"
        ),
        sa.PrimaryKeyConstraint("id", name="numbered_column_pkey"),
        sa.UniqueConstraint(
            "snapshot", "column_name", name="numbered_column_snapshot_column_name_key"
        ),
        schema="snaptide",
    )
    op.create_table(
        "number_range",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("column_id", sa.Integer(), nullable=False),
        sa.Column("from_ticket", sa.BigInteger(), nullable=False),
        sa.Column("to_ticket", sa.BigInteger(), nullable=False),
        sa.Column("first", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("master_id", sa.Uuid(), nullable=False),
        sa.Column("warn_at", sa.BigInteger()),
        sa.Column("void", sa.Boolean(), nullable=False, server_default="false"),
        sa.PrimaryKeyConstraint("id", name="number_range_pkey"),
        sa.ForeignKeyConstraint(
            ["column_id"],
            ["snaptide.numbered_column.id"],
            name="number_range_column_id_fkey",
            ondelete="CASCADE",
        ),
        schema="snaptide",
    )
    op.create_index(
        "number_range_tickets",
        "number_range",
        ["column_id", "from_ticket"],
        schema="snaptide",
    )


def downgrade() -> None:
    # A default that draws is lost with its function, and so is the sequence.
    op.execute("DROP FUNCTION snaptide.next_number, snaptide.uuidv7 CASCADE")
    op.execute(
        "DO $$ DECLARE one text; BEGIN"
        " FOR one IN SELECT format('snaptide.numbers_%s', id)"
        " FROM snaptide.numbered_column WHERE method = 'lease'"
        " LOOP EXECUTE 'DROP SEQUENCE ' || one; END LOOP; END $$"
    )
    for table in ("number_range", "numbered_column", "number_lease"):
        op.drop_table(table, schema="snaptide")
