"""How a change travels: queue, push, error queue, schedules."""

from deferred.coordinator.connection import coordinate, synchronous
from deferred.coordinator.in_doubt import (
    commit_in_doubt,
    forget_in_doubt,
    list_in_doubt,
    rollback_in_doubt,
)
from deferred.coordinator.recovery import RecoveryReport, recover
from deferred.lives.history import History, history
from deferred.lives.life import Event, Standing
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
    "Edit",
    "Event",
    "History",
    "PushReport",
    "Pushes",
    "RecoveryReport",
    "Schedule",
    "Standing",
    "allow_procedure",
    "call",
    "commit_in_doubt",
    "coordinate",
    "delete_errors",
    "enable_schedule",
    "forget_in_doubt",
    "history",
    "list_destinations",
    "list_errors",
    "list_in_doubt",
    "list_procedures",
    "list_schedules",
    "procedure",
    "purge",
    "push",
    "push_all",
    "recover",
    "retry",
    "retry_errors",
    "revoke_procedure",
    "rollback_in_doubt",
    "schedule",
    "set_budget",
    "show_error",
    "synchronous",
    "unschedule",
    "validate_destination",
]
