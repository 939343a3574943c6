"""Celery tasks of this package: names in, nothing out; every one may run twice."""

from __future__ import annotations

from typing import Any

from celery import shared_task
from sqlalchemy.exc import OperationalError

import deferred
import masters
from deferred import schedules
from deferred.errors import DestinationDisabled, PushInterrupted
from deferred.push import destinations
from sites import Site, activity, configured
from sites.errors import SiteUnreachable, SnaptideError

#: What passes by itself is tried again; a site that stays away longer is left
#: to the next schedule or notification.
RETRYING: dict[str, Any] = {
    "autoretry_for": (SiteUnreachable, PushInterrupted, OperationalError),
    "retry_backoff": 1,
    "retry_backoff_max": 60,
    "max_retries": 5,
    # Told in one line, not as a traceback.
    "throws": (SnaptideError,),
}


@shared_task(name="deferred.tasks.push", **RETRYING)
def push(site: str, destination: str = schedules.EVERYTHING, **options: Any) -> None:
    """Push a site's queue to a destination; `*` is each of them."""
    home = configured.site(site)
    with schedules.outcome(home, "push", destination):
        if destination == schedules.EVERYTHING:
            _push_to_all(home, options)
        else:
            _push(home, destination, options)


@shared_task(name="deferred.tasks.purge", **RETRYING)
def purge(site: str, subject: str = schedules.EVERYTHING) -> None:
    """Purge a site's queue of what is covered, and its snapshot logs."""
    home = configured.site(site)
    with (
        schedules.outcome(home, "purge", subject),
        activity.report(home, "purge", subject),
    ):
        deferred.purge(home)
        masters.purge_snapshot_logs(home)


@shared_task(name="deferred.tasks.recover", **RETRYING)
def recover(site: str) -> None:
    """Finish what coordinators left in doubt at a site, as its deciding sites say."""
    deferred.recover(configured.site(site))


def _push(home: Site, destination: str, options: dict[str, Any]) -> None:
    with activity.report(home, "push", destination) as progress:
        deferred.push(home, destination, progress=progress, **options)


def _push_to_all(home: Site, options: dict[str, Any]) -> None:
    """Push to each destination; one that is away does not keep others waiting."""
    failed: list[SnaptideError] = []
    for name in destinations(home):
        try:
            _push(home, name, options)
        except DestinationDisabled:
            continue
        except SnaptideError as error:
            failed.append(error)
    if failed:
        raise failed[0]
