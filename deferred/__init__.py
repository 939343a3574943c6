"""Deferred propagation: queues, pushes, error queues, procedure calls, schedules."""

from deferred.parked.edit import Edit
from deferred.parked.error_queue import delete_errors, list_errors, show_error
from deferred.parked.retry import retry, retry_errors
from deferred.procedures.allowed import (
    AllowedProcedure,
    allow_procedure,
    list_procedures,
    revoke_procedure,
)
from deferred.procedures.defer_call import call
from deferred.procedures.routines import procedure
from deferred.purge import purge
from deferred.pushing.everywhere import Pushes, push_all
from deferred.pushing.push import PushReport, push
from deferred.queues.backlog import Backlog, list_destinations
from deferred.queues.budget import set_budget, validate_destination
from deferred.row_history.events import CurrentRow, Event
from deferred.row_history.history import History, history
from deferred.schedules import (
    Schedule,
    enable_schedule,
    list_schedules,
    schedule,
    unschedule,
)

__all__ = [
    "AllowedProcedure",
    "Backlog",
    "CurrentRow",
    "Edit",
    "Event",
    "History",
    "PushReport",
    "Pushes",
    "Schedule",
    "allow_procedure",
    "call",
    "delete_errors",
    "enable_schedule",
    "history",
    "list_destinations",
    "list_errors",
    "list_procedures",
    "list_schedules",
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
