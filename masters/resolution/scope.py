"""The scope of a lost conflict, row or transaction: Informix's --scope."""

from __future__ import annotations

from enum import StrEnum

from masters.resolution.conflict import Conflict, Decision, Kind, Resolution


class Scope(StrEnum):
    """How much of a transaction is lost with one row."""

    #: the row, or the column group, alone
    ROW = "row"
    #: the whole transaction, which waits in the error queue
    TRANSACTION = "transaction"


def lost(conflict: Conflict, scope: Scope, reason: str) -> Resolution:
    """The answer to a conflict that the site lost."""
    if scope is Scope.TRANSACTION:
        rejected = f"{reason}, which rejects the transaction"
        return Resolution(decision=Decision.REJECT, reason=rejected)
    group = conflict.kind is Kind.UPDATE
    return Resolution(
        decision=Decision.MASTER_WINS if group else Decision.IGNORE, reason=reason
    )
