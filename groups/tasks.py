"""Celery tasks of this package; they can be repeated at any time."""

from __future__ import annotations

from celery import shared_task

import synchronous
from deferred.tasks import RETRYING
from groups.unfinished import finish
from sites import configured


@shared_task(name="groups.tasks.recover", **RETRYING)
def recover(site: str) -> None:
    """Finish transactions left in doubt at a site, as their deciding sites say."""
    home = configured.site(site)
    try:
        synchronous.recover(home)
    finally:
        finish(home)
