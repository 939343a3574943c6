"""Synchronous propagation: one transaction over a site and its masters."""

from typing import TYPE_CHECKING

from snaptide_imports import face

if TYPE_CHECKING:
    from synchronous.connection import begin, coordinate
    from synchronous.errors import (
        CommitFailed,
        DecidedOtherwise,
        NotCoordinated,
        NotInDoubt,
        NoTransaction,
        OutcomeUnknown,
        PendingCalls,
        RefusedByMaster,
        SynchronousConflict,
        TransactionControl,
    )
    from synchronous.in_doubt import (
        InDoubt,
        commit_in_doubt,
        forget_in_doubt,
        list_in_doubt,
        rollback_in_doubt,
    )
    from synchronous.recovery import RecoveryReport, recover

__all__ = [
    "CommitFailed",
    "DecidedOtherwise",
    "InDoubt",
    "NoTransaction",
    "NotCoordinated",
    "NotInDoubt",
    "OutcomeUnknown",
    "PendingCalls",
    "RecoveryReport",
    "RefusedByMaster",
    "SynchronousConflict",
    "TransactionControl",
    "begin",
    "commit_in_doubt",
    "coordinate",
    "forget_in_doubt",
    "list_in_doubt",
    "recover",
    "rollback_in_doubt",
]

face(__name__)
