"""Deferred propagation: queues, pushes, error queues, procedure calls, schedules."""

from typing import TYPE_CHECKING

from snaptide_imports import face

if TYPE_CHECKING:
    from deferred.batches.called import Argument
    from deferred.errors import (
        BadEdit,
        BadKey,
        BadOption,
        BadSkip,
        BothDestinations,
        CallsQueued,
        CannotTell,
        ChangesNotQueued,
        ColumnRenamed,
        DestinationDisabled,
        DestinationInvalid,
        DestinationJoins,
        DestinationQuiet,
        GroupQuiet,
        LeftOut,
        NoDestination,
        NoMasterAnyMore,
        NoSuchDestination,
        NoSuchError,
        NothingKnown,
        OtherSchemaVersion,
        PastRetention,
        PositionMismatch,
        PredecessorLost,
        ProcedureEndedTransaction,
        ProcedureEndsTransaction,
        ProcedureFailed,
        ProcedureNotAllowed,
        PushInterrupted,
        PushRunning,
        QueueNotEmpty,
        RetryFailed,
        TargetColumnsMoved,
        TooManyErrors,
        TooWide,
        TransactionRefused,
        UnknownProcedure,
        UnresolvedConflict,
        ValueWouldChange,
        WaitsForError,
    )
    from deferred.interval import BadInterval
    from deferred.options import ErrorAction, PushArguments, PushOptions
    from deferred.parked.edit import Edit
    from deferred.parked.error_dependencies import Edge
    from deferred.parked.error_queue import (
        ErrorCall,
        ErrorProcedure,
        ErrorTransaction,
        delete_errors,
        list_errors,
        show_error,
    )
    from deferred.parked.preview import ErrorPreview, PreviewedRow, preview_error
    from deferred.parked.retry import RetryReport, retry, retry_errors
    from deferred.procedures.allowed import (
        AllowedProcedure,
        allow_procedure,
        list_procedures,
        revoke_procedure,
    )
    from deferred.procedures.defer_call import call
    from deferred.procedures.routines import procedure
    from deferred.purge import QueuePurgeReport, purge
    from deferred.pushing.everywhere import Pushes, push_all
    from deferred.pushing.push import push
    from deferred.pushing.report import PushReport
    from deferred.queues.backlog import Backlog, list_destinations
    from deferred.queues.budget import set_budget, validate_destination
    from deferred.queues.destination_state import DestinationState
    from deferred.row_history.events import CurrentRow, Event
    from deferred.row_history.history import History, history
    from deferred.schedules import (
        BadSchedule,
        NoSuchSchedule,
        Schedule,
        enable_schedule,
        list_schedules,
        schedule,
        unschedule,
    )

__all__ = [
    "AllowedProcedure",
    "Argument",
    "Backlog",
    "BadEdit",
    "BadInterval",
    "BadKey",
    "BadOption",
    "BadSchedule",
    "BadSkip",
    "BothDestinations",
    "CallsQueued",
    "CannotTell",
    "ChangesNotQueued",
    "ColumnRenamed",
    "CurrentRow",
    "DestinationDisabled",
    "DestinationInvalid",
    "DestinationJoins",
    "DestinationQuiet",
    "DestinationState",
    "Edge",
    "Edit",
    "ErrorAction",
    "ErrorCall",
    "ErrorPreview",
    "ErrorProcedure",
    "ErrorTransaction",
    "Event",
    "GroupQuiet",
    "History",
    "LeftOut",
    "NoDestination",
    "NoMasterAnyMore",
    "NoSuchDestination",
    "NoSuchError",
    "NoSuchSchedule",
    "NothingKnown",
    "OtherSchemaVersion",
    "PastRetention",
    "PositionMismatch",
    "PredecessorLost",
    "PreviewedRow",
    "ProcedureEndedTransaction",
    "ProcedureEndsTransaction",
    "ProcedureFailed",
    "ProcedureNotAllowed",
    "PushArguments",
    "PushInterrupted",
    "PushOptions",
    "PushReport",
    "PushRunning",
    "Pushes",
    "QueueNotEmpty",
    "QueuePurgeReport",
    "RetryFailed",
    "RetryReport",
    "Schedule",
    "TargetColumnsMoved",
    "TooManyErrors",
    "TooWide",
    "TransactionRefused",
    "UnknownProcedure",
    "UnresolvedConflict",
    "ValueWouldChange",
    "WaitsForError",
    "allow_procedure",
    "call",
    "delete_errors",
    "enable_schedule",
    "history",
    "list_destinations",
    "list_errors",
    "list_procedures",
    "list_schedules",
    "preview_error",
    "procedure",
    "purge",
    "push",
    "push_all",
    "retry",
    "retry_errors",
    "revoke_procedure",
    "schedule",
    "set_budget",
    "show_error",
    "unschedule",
    "validate_destination",
]

face(__name__)
