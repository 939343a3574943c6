"""Draws a transaction's order number with less work at each commit."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0038"
down_revision = "0037"

_SQL = Path(__file__).parent.parent / "sql"
_TABLE = "snaptide.deferred_transaction"
_AGAIN, _LAST = "snaptide_order_again", "snaptide_order_last"

#: The clause by which a procedure's call has the order number drawn again.
_BEFORE = "DO UPDATE SET order_no = NULL\n"
_SINCE = "DO UPDATE SET order_no = NULL, start_time = now()\n"


def upgrade() -> None:
    _drop(_AGAIN)
    _drop(_LAST)
    _trigger(_LAST, "UPDATE OF start_time")
    _run(_read("order_by_column"))
    calling = _read("defer_call_checked")
    assert _BEFORE in calling
    _run(calling.replace(_BEFORE, _SINCE))


def downgrade() -> None:
    _drop(_LAST)
    _trigger(_LAST, "UPDATE", "WHEN (NEW.order_no = 0)")
    _trigger(_AGAIN, "UPDATE", "WHEN (NEW.order_no IS NULL)")
    _run(_read("order_of_coordinated"))
    _run(_read("defer_call_checked"))


def _drop(trigger: str) -> None:
    op.execute(f"DROP TRIGGER {trigger} ON {_TABLE}")


def _trigger(name: str, event: str, condition: str = "") -> None:
    op.execute(
        f"CREATE CONSTRAINT TRIGGER {name} AFTER {event} ON {_TABLE}"
        f" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW {condition}"
        " EXECUTE FUNCTION snaptide.take_order()"
    )
    op.execute(f"ALTER TABLE {_TABLE} ENABLE ALWAYS TRIGGER {name}")


def _read(name: str) -> str:
    return (_SQL / f"{name}.sql").read_text("utf-8")


def _run(statements: str) -> None:
    op.get_bind().exec_driver_sql(statements, execution_options={"no_parameters": True})
