"""Celery tasks of this package: names in, nothing out; every one may run twice."""

from __future__ import annotations

from typing import Any

from celery import shared_task

import snapshots
from deferred import schedules
from deferred.tasks import RETRYING
from sites import configured


@shared_task(name="snapshots.tasks.refresh", **RETRYING)
def refresh(site: str, group: str, **options: Any) -> None:
    """Refresh a group of snapshots to one moment of its master."""
    home = configured.site(site)
    with schedules.outcome(home, "refresh", group):
        snapshots.refresh(home, group, **options)
