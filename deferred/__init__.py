"""How a change travels: queue, push, error queue, schedules."""

from deferred.error_queue import delete_errors, list_errors, show_error
from deferred.purge import purge
from deferred.push import PushReport, push
from deferred.retry import Edit, retry, retry_errors

__all__ = [
    "Edit",
    "PushReport",
    "delete_errors",
    "list_errors",
    "purge",
    "push",
    "retry",
    "retry_errors",
    "show_error",
]
