"""Celery tasks of this package: they take names, return nothing, and may run twice."""

from __future__ import annotations

import logging
import random
from datetime import timedelta
from typing import Any

from celery import Task, shared_task
from sqlalchemy.exc import OperationalError

import deferred
import masters
from deferred import runs, schedules
from deferred.errors import DestinationDisabled, DestinationJoins, PushInterrupted
from deferred.options import PurgeOptions, PushOptions
from deferred.pushing.push import destinations
from deferred.pushing.report import PushReport
from deferred.queues import backlog
from masters.analysis import records
from sites import configured
from sites.errors import SiteUnreachable, SnaptideError, in_one_line
from sites.sessions import activity
from sites.sessions.site import autocommit

log = logging.getLogger(__name__)


class Spread(Task[Any, Any]):
    """A task whose retries pause for any length of time, not only for whole seconds.

    Celery draws a whole number of them, and before the first retry 0 or 1: what failed
    for many sites at one moment would come back in steps, and half of it at once.
    """

    def retry(self, *args: Any, **options: Any) -> Any:
        """Retry as Celery does, up to a second later."""
        if "countdown" in options:
            options["countdown"] += random.random()
        return super().retry(*args, **options)


#: Failures that pass by themselves are tried again, each time after a longer pause of
#: random length; if a site stays away longer, the next schedule or notification tries.
RETRYING: dict[str, Any] = {
    "base": Spread,
    "autoretry_for": (SiteUnreachable, PushInterrupted, OperationalError),
    "retry_backoff": 1,
    "retry_backoff_max": 60,
    "retry_jitter": True,
    "max_retries": 5,
    # The worker logs these in one line, not as a traceback.
    "throws": (SnaptideError,),
}


@shared_task(name="deferred.tasks.push", bind=True, **RETRYING)
def push(
    task: Task[Any, Any],
    site: str,
    destination: str = schedules.EVERYTHING,
    **options: Any,
) -> None:
    """Push a site's queue to a destination; `*` means all of them.

    A destination that failed a moment ago is left alone, unless this is the retry of
    the failed push: schedules and commits go on asking, and must not add up.
    """
    home = configured.site(site)
    everything = destination == schedules.EVERYTHING
    wanted = destinations(home) if everything else [destination]
    if not task.request.retries:
        with home.session() as connection, autocommit(connection):
            resting = backlog.resting(connection)
        open_ = [name for name in wanted if name not in resting]
        if wanted and not open_:
            return
        wanted = open_
    with runs.outcome(home, "push", destination):
        PushOptions.of(options)  # a message may say anything, and `wanted` be empty
        pushes = deferred.push_all(
            home,
            wanted,
            shown=lambda name: activity.report(home, "push", name),
            **options,
        )
        for report in pushes.reports:
            tell(report)
        paused = (DestinationDisabled, DestinationJoins) if everything else ()
        failed = [e for e in pushes.errors if not isinstance(e, paused)]
        # The worker logs the error that is raised.
        for error in failed[1:]:
            log.error("push %s %s: %s", site, destination, in_one_line(error))
        if failed:
            raise failed[0]


def tell(report: PushReport) -> None:
    """Log what a push did in one line, as a warning if transactions were parked."""
    if report.another_pusher:
        log.info(
            "push %s %s: another push is running.", report.site, report.destination
        )
        return
    log.log(
        logging.WARNING if report.errors else logging.INFO,
        "push %s %s: %s transactions, %s calls, %s resolved, %s parked in %.1f s.",
        report.site,
        report.destination,
        f"{report.transactions:,}",
        f"{report.calls:,}",
        f"{report.conflicts_resolved:,}",
        f"{report.errors:,}",
        report.seconds,
        extra={
            "event": "push",
            "site": report.site,
            "subject": report.destination,
            "transactions": report.transactions,
            "calls": report.calls,
            "resolved": report.conflicts_resolved,
            "parked": report.errors,
            "seconds": report.seconds,
        },
    )


@shared_task(name="deferred.tasks.purge", **RETRYING)
def purge(site: str, subject: str = schedules.EVERYTHING, **options: Any) -> None:
    """Purge covered calls of a site's queue, its snapshot logs, and old records."""
    home = configured.site(site)
    with (
        runs.outcome(home, "purge", subject),
        activity.report(home, "purge", subject),
    ):
        chosen = PurgeOptions.of(options)
        kept = configured.configured()
        deferred.purge(home, retention=kept.retention)
        masters.purge_snapshot_logs(home, deletes_kept=kept.deletes_kept)
        records.purge_resolutions(home, timedelta(days=chosen.record_days))
