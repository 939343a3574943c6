"""How a change travels: queue, push, error queue, schedules."""

from deferred.coordinator.connection import coordinate, synchronous
from deferred.edit import Edit
from deferred.error_queue import delete_errors, list_errors, show_error
from deferred.purge import purge
from deferred.push import PushReport, push
from deferred.retry import retry, retry_errors
from deferred.schedules import (
    Schedule,
    enable_schedule,
    list_schedules,
    schedule,
    unschedule,
)

__all__ = [
    "Edit",
    "PushReport",
    "Schedule",
    "coordinate",
    "delete_errors",
    "enable_schedule",
    "list_errors",
    "list_schedules",
    "purge",
    "push",
    "retry",
    "retry_errors",
    "schedule",
    "show_error",
    "synchronous",
    "unschedule",
]
