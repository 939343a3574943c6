"""The scope of a lost conflict, row or transaction: Informix's --scope."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from masters.errors import InvalidParameter
from masters.resolution.conflict import Conflict, Decision, Kind, Resolution


class Scope(StrEnum):
    """How much of a transaction is lost with one row."""

    #: the row, or the column group, alone
    ROW = "row"
    #: the whole transaction, which waits in the error queue
    TRANSACTION = "transaction"


def scope_of(method: str, parameters: Mapping[str, object]) -> Scope:
    """The parameter `scope`; row if it is not given.

    Raises:
        InvalidParameter: there is no such scope.
    """
    value = parameters.get("scope")
    if value is None:
        return Scope.ROW
    for scope in Scope:
        if value == scope:
            return scope
    raise InvalidParameter(
        f"{method}: scope must be one of {', '.join(Scope)}, not {value!r}.",
        method=method,
        parameter="scope",
        value=value,
    )


def lost(conflict: Conflict, scope: Scope, reason: str) -> Resolution:
    """The answer to a conflict that the site lost."""
    if scope is Scope.TRANSACTION:
        rejected = f"{reason}, which rejects the transaction"
        return Resolution(decision=Decision.REJECT, reason=rejected)
    group = conflict.kind is Kind.UPDATE
    return Resolution(
        decision=Decision.MASTER_WINS if group else Decision.IGNORE, reason=reason
    )
