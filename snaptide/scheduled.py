"""Gives the work of schedules to workers: for beat, commands and the console."""

from __future__ import annotations

from celery import Celery

from deferred import schedules
from deferred.interval import seconds_of
from deferred.schedules import EVERYTHING, Schedule
from sites import Site
from snaptide import broker
from snaptide.application import (
    CHECK,
    ORDINARY,
    PURGE,
    PUSH,
    REFRESH,
    enqueue,
    queue_of,
)
from snaptide.errors import NoBroker

#: Priorities of refreshes that are as late as this, by share; lower ones come first.
#: Kombu keeps a list in Redis for each of 0, 3, 6 and 9.
_FIRST = ((2.0, 0), (1.0, 3))

TASKS = {"push": PUSH, "refresh": REFRESH, "purge": PURGE, "check": CHECK}


def run_now(app: Celery, site: Site, kind: str, subject: str = EVERYTHING) -> str:
    """Have a worker run a schedule now, with its options; also one that is paused.

    When it is due next stays as it is.

    Returns:
        Celery's id of the task.

    Raises:
        NoSuchSchedule: there is none.
        NoBroker: Redis does not answer.
    """
    return send(app, site.name, schedules.find_schedule(site, kind, subject))


def send(app: Celery, site: str, due: Schedule, late: float = 0.0) -> str:
    """Put the work of a schedule into its site's queue.

    Parameters:
        late: the age of what a group shows, as a share of what its contract allows.

    Returns:
        Celery's id of the task.

    Raises:
        NoBroker: Redis does not answer.
    """
    return enqueue(
        app,
        TASKS[due.kind],
        site,
        None if due.kind == "purge" else due.subject,
        options=dict(due.options),
        expires=_expiry(due),
        priority=priority(late),
    )


def waiting(app: Celery, site: str) -> int:
    """How many tasks of a site no worker has taken yet.

    Raises:
        NoBroker: Redis does not answer.
    """
    try:
        return broker.waiting(app.conf.broker_url, queue_of(site))
    except broker.ERRORS as error:
        raise NoBroker("The broker does not answer.") from error


def priority(late: float) -> int:
    """Which work workers begin first, whichever site's it is.

    Parameters:
        late: as of `send`.
    """
    return next((first for least, first in _FIRST if late >= least), ORDINARY)


def _expiry(due: Schedule) -> float | None:
    """Seconds after which the next run makes this one needless; None by cron.

    So a worker that was away does not find an hour's pushes. Runs by cron are rare
    and worth doing late. At least a minute, because the worker's clock decides, and
    it may differ from ours.
    """
    seconds = seconds_of(due.interval)
    return None if seconds is None else max(seconds, 60.0)
