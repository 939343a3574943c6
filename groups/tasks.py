"""Celery tasks of this package; they can be repeated at any time."""

from __future__ import annotations

from celery import shared_task

import masters
import snapshots
import synchronous
from deferred.tasks import RETRYING
from groups.unfinished import finish
from sites import Site, configured


@shared_task(name="groups.tasks.recover", **RETRYING)
def recover(site: str) -> None:
    """Finish transactions left in doubt at a site, as their deciding sites say.

    Then look at the contracts that the site keeps as a master, and at the answers that
    its own masters promise it.
    """
    home = configured.site(site)
    try:
        synchronous.recover(home)
    finally:
        try:
            finish(home)
        finally:
            try:
                keep_contracts(home)
            finally:
                snapshots.look_at_answers(home)


def keep_contracts(home: Site) -> None:
    """Look at the contracts of a master; purge its logs if a site was released."""
    if masters.look_at_contracts(home):
        kept = configured.configured().deletes_kept
        masters.purge_snapshot_logs(home, deletes_kept=kept)
