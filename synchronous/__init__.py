"""Synchronous propagation: one transaction over a site and its masters."""

from typing import TYPE_CHECKING

from snaptide_imports import face

if TYPE_CHECKING:
    from synchronous.connection import begin as begin, coordinate as coordinate
    from synchronous.errors import (
        CommitFailed as CommitFailed,
        DecidedOtherwise as DecidedOtherwise,
        NotCoordinated as NotCoordinated,
        NotInDoubt as NotInDoubt,
        NoTransaction as NoTransaction,
        OutcomeUnknown as OutcomeUnknown,
        PendingCalls as PendingCalls,
        RefusedByMaster as RefusedByMaster,
        SynchronousConflict as SynchronousConflict,
        TransactionControl as TransactionControl,
    )
    from synchronous.in_doubt import (
        InDoubt as InDoubt,
        commit_in_doubt as commit_in_doubt,
        forget_in_doubt as forget_in_doubt,
        list_in_doubt as list_in_doubt,
        rollback_in_doubt as rollback_in_doubt,
    )
    from synchronous.recovery import (
        RecoveryReport as RecoveryReport,
        recover as recover,
    )


face(__name__)
