"""Deferred propagation: queues, pushes, error queues, procedure calls, schedules."""

from typing import TYPE_CHECKING

from snaptide_imports import face

if TYPE_CHECKING:
    from deferred.batches.called import Argument as Argument
    from deferred.errors import (
        BadEdit as BadEdit,
        BadKey as BadKey,
        BadOption as BadOption,
        BadSkip as BadSkip,
        BothDestinations as BothDestinations,
        CallsQueued as CallsQueued,
        CannotTell as CannotTell,
        ChangesNotQueued as ChangesNotQueued,
        ColumnRenamed as ColumnRenamed,
        DestinationDisabled as DestinationDisabled,
        DestinationInvalid as DestinationInvalid,
        DestinationJoins as DestinationJoins,
        DestinationQuiet as DestinationQuiet,
        GivesGoneColumn as GivesGoneColumn,
        GroupQuiet as GroupQuiet,
        LeftOut as LeftOut,
        NoDestination as NoDestination,
        NoMasterAnyMore as NoMasterAnyMore,
        NoSuchDestination as NoSuchDestination,
        NoSuchError as NoSuchError,
        NothingKnown as NothingKnown,
        OtherSchemaVersion as OtherSchemaVersion,
        PastRetention as PastRetention,
        PositionMismatch as PositionMismatch,
        PredecessorLost as PredecessorLost,
        ProcedureEndedTransaction as ProcedureEndedTransaction,
        ProcedureEndsTransaction as ProcedureEndsTransaction,
        ProcedureFailed as ProcedureFailed,
        ProcedureNotAllowed as ProcedureNotAllowed,
        PushInterrupted as PushInterrupted,
        PushRunning as PushRunning,
        QueueNotEmpty as QueueNotEmpty,
        RetryFailed as RetryFailed,
        TargetColumnsMoved as TargetColumnsMoved,
        TooManyErrors as TooManyErrors,
        TooWide as TooWide,
        TransactionRefused as TransactionRefused,
        UnknownProcedure as UnknownProcedure,
        UnresolvedConflict as UnresolvedConflict,
        ValueWouldChange as ValueWouldChange,
        WaitsForError as WaitsForError,
    )
    from deferred.interval import BadInterval as BadInterval
    from deferred.options import (
        ErrorAction as ErrorAction,
        PushArguments as PushArguments,
        PushOptions as PushOptions,
    )
    from deferred.parked.edit import Edit as Edit
    from deferred.parked.error_dependencies import Edge as Edge
    from deferred.parked.error_queue import (
        ErrorCall as ErrorCall,
        ErrorProcedure as ErrorProcedure,
        ErrorTransaction as ErrorTransaction,
        delete_errors as delete_errors,
        list_errors as list_errors,
        show_error as show_error,
    )
    from deferred.parked.preview import (
        ErrorPreview as ErrorPreview,
        PreviewedRow as PreviewedRow,
        preview_error as preview_error,
    )
    from deferred.parked.retry import (
        RetryReport as RetryReport,
        retry as retry,
    )
    from deferred.parked.retry_errors import retry_errors as retry_errors
    from deferred.procedures.allowed import (
        AllowedProcedure as AllowedProcedure,
        allow_procedure as allow_procedure,
        list_procedures as list_procedures,
        revoke_procedure as revoke_procedure,
    )
    from deferred.procedures.defer_call import call as call
    from deferred.procedures.routines import procedure as procedure
    from deferred.purge import QueuePurgeReport as QueuePurgeReport, purge as purge
    from deferred.pushing.everywhere import Pushes as Pushes, push_all as push_all
    from deferred.pushing.push import push as push
    from deferred.pushing.report import NotAToken as NotAToken, PushReport as PushReport
    from deferred.queues.backlog import (
        Backlog as Backlog,
        list_destinations as list_destinations,
    )
    from deferred.queues.budget import (
        set_budget as set_budget,
        validate_destination as validate_destination,
    )
    from deferred.queues.destination_state import DestinationState as DestinationState
    from deferred.row_history.events import CurrentRow as CurrentRow, Event as Event
    from deferred.row_history.history import History as History, history as history
    from deferred.schedules import (
        BadSchedule as BadSchedule,
        NoSuchSchedule as NoSuchSchedule,
        Schedule as Schedule,
        enable_schedule as enable_schedule,
        list_schedules as list_schedules,
        next_runs as next_runs,
        schedule as schedule,
        unschedule as unschedule,
    )


face(__name__)
