"""A transaction may be parked because its master has dropped a column."""

from alembic import op

revision = "0073"
down_revision = "0072"

_REASON = "error_transaction_reason_check"
_BEFORE = "'conflict', 'error', 'dependant', 'quiet', 'withdrawn'"


def upgrade() -> None:
    _allow(f"{_BEFORE}, 'column gone'")


def downgrade() -> None:
    op.execute(
        "UPDATE snaptide.error_transaction SET reason = 'error'"
        " WHERE reason = 'column gone'"
    )
    _allow(_BEFORE)


def _allow(reasons: str) -> None:
    op.drop_constraint(op.f(_REASON), "error_transaction", schema="snaptide")
    op.create_check_constraint(
        op.f(_REASON), "error_transaction", f"reason IN ({reasons})", schema="snaptide"
    )
