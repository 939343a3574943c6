"""The form of the lines that services log: text for people, or JSON for collectors.

A JSON line has `time` (UTC), `level`, `logger` and `message`, the same sentence as the
text. Lines of a push, refresh or check, and of one that failed, also have `event`,
`site` and what it was about, and numbers as numbers.
"""

from __future__ import annotations

import logging
from typing import Any

from celery.signals import after_setup_logger, after_setup_task_logger
from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.json import JsonFormatter

#: Facts of Celery about a task, and a message in colour: `message` says the same.
_LEFT_OUT = ("data", "color_message")


def as_json() -> logging.Formatter:
    """A formatter that makes one JSON object of each record, on one line."""
    return JsonFormatter(
        ["levelname", "name", "message"],
        rename_fields={"levelname": "level", "name": "logger"},
        timestamp="time",
        reserved_attrs=[*RESERVED_ATTRS, *_LEFT_OUT],
    )


def celery_as_json() -> None:
    """Have a worker or beat of this process log JSON lines."""
    for signal in (after_setup_logger, after_setup_task_logger):
        signal.connect(_use_json, weak=False, dispatch_uid="snaptide.json")


#: Logging of a web server as JSON lines, as `logging.config` takes it.
SERVER_AS_JSON: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": as_json}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
    "root": {"handlers": ["stderr"], "level": "INFO"},
}


def _use_json(logger: logging.Logger, **_: object) -> None:
    for handler in logger.handlers:
        handler.setFormatter(as_json())
