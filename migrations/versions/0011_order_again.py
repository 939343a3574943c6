"""Draws a transaction's order number again if calls follow after an early draw."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0011"
down_revision = "0010"

SQL = Path(__file__).parent.parent / "sql"
LAST_AS_BEFORE = """
CREATE CONSTRAINT TRIGGER snaptide_order_last
AFTER UPDATE ON snaptide.deferred_transaction
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
WHEN (OLD.order_no IS NULL)
EXECUTE FUNCTION snaptide.take_order()
"""
TABLE = "snaptide.deferred_transaction"


def upgrade() -> None:
    _execute((SQL / "order_again.sql").read_text("utf-8"))


def downgrade() -> None:
    for trigger in ("snaptide_order_again", "snaptide_order_last"):
        op.execute(f"DROP TRIGGER {trigger} ON {TABLE}")
    _execute((SQL / "coordinated_order.sql").read_text("utf-8"))
    _execute(LAST_AS_BEFORE)
    op.execute(f"ALTER TABLE {TABLE} ENABLE ALWAYS TRIGGER snaptide_order_last")


def _execute(statements: str) -> None:
    op.get_bind().exec_driver_sql(statements, execution_options={"no_parameters": True})
