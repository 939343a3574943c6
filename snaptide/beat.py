"""Celery's beat over the catalogs of all sites, instead of a file or Redis.

Schedules live where the work is (docs/decisions/0004): whoever restores a site
has its schedules, and losing Redis loses none. They are read every second, so a
change takes effect without a restart. Several beats may run.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from celery import Celery
from celery.beat import Scheduler

from deferred import runs, schedules
from deferred.interval import seconds_of
from deferred.schedules import Schedule
from sites import Site
from sites.configured import configured
from snaptide.application import PURGE, PUSH, RECOVER, REFRESH, enqueue
from snaptide.asking import said_of
from snaptide.listener import Listeners
from snaptide.patience import Trouble

log = logging.getLogger(__name__)

#: Seconds between two looks at the catalogs.
PACE = 1.0

#: Seconds between two recoveries of a site: as long, what a coordinator left behind may
#: hold locks.
RECOVERY = 60.0

#: Seconds between two notes at a site that beat looks at it.
NOTES = 10.0

TASKS = {"push": PUSH, "refresh": REFRESH, "purge": PURGE}


class CatalogScheduler(Scheduler):
    """Reads what is due at each site; the sites do not wait for each other."""

    def __init__(self, app: Celery, *args: Any, **kwargs: Any) -> None:
        self._looks: dict[str, Look] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._listeners: Listeners | None = None
        super().__init__(app, *args, **kwargs)

    def setup_schedule(self) -> None:
        """Begin to look at the sites, and to listen to them."""
        sites = configured().directory.values()
        self._looks = {site.name: Look(self.app, site) for site in sites}
        self._pool = ThreadPoolExecutor(
            max_workers=max(len(self._looks), 1), thread_name_prefix="snaptide-beat"
        )
        self._listeners = Listeners.of(self.app)
        self._listeners.start()

    def tick(self, *_args: Any, **_kwargs: Any) -> float:
        """Look at every site that the last look is over of; returns the pause."""
        if self._pool is not None:
            for look in self._looks.values():
                look.begin(self._pool)
        return PACE

    def close(self) -> None:
        """Stop looking and listening."""
        if self._listeners is not None:
            self._listeners.stop()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        super().close()

    @property
    def info(self) -> str:
        """What beat prints when it starts."""
        return f"    . sites -> {', '.join(self._looks)}"


class Look:
    """One site's schedules: looked at again and again, one look at a time."""

    def __init__(self, app: Celery, site: Site) -> None:
        self._app = app
        self._site = site
        self._trouble = Trouble(log, f"Schedules of {site.name}")
        self._running: Future[None] | None = None
        self._recover_at = 0.0
        self._note_at = 0.0

    def begin(self, pool: ThreadPoolExecutor) -> None:
        """Look, unless the last look is not over or the site is left alone."""
        if self._trouble.resting or (self._running and not self._running.done()):
            return
        self._running = pool.submit(self.look)

    def look(self) -> None:
        """Take what is due and ask the workers for it."""
        try:
            self._note()
            # What could not be sent stays due: the claim is not committed.
            with self._site.begin() as connection:
                for due in schedules.claim(connection):
                    self._send(due)
            self._recover()
        except Exception as error:
            # Nobody reads what becomes of a look: one that fails has to say so.
            self._trouble.failed(said_of(self._site, error))
        else:
            self._trouble.over()

    def _note(self) -> None:
        """Note every now and then that beat looks, for `snaptide status`."""
        now = time.monotonic()
        if now >= self._note_at:
            with self._site.begin() as connection:
                runs.note_look(connection)
            self._note_at = now + NOTES

    def _recover(self) -> None:
        """Every minute, whatever the schedules: nobody has to ask for it."""
        now = time.monotonic()
        if now >= self._recover_at:
            enqueue(self._app, RECOVER, self._site.name, expires=RECOVERY)
            self._recover_at = now + RECOVERY

    def _send(self, due: Schedule) -> None:
        subject = None if due.kind == "purge" else due.subject
        enqueue(
            self._app,
            TASKS[due.kind],
            self._site.name,
            subject,
            options=dict(due.options),
            expires=_expiry(due),
        )
        log.info("%s %s %s is due.", due.kind, self._site.name, due.subject)


def _expiry(due: Schedule) -> float | None:
    """Seconds after which the next run makes this one needless.

    So that a worker that was away does not find an hour's pushes. Runs by cron
    are rare and worth doing late. At least a minute: it is the worker's clock
    that decides, and it may differ from ours.
    """
    seconds = seconds_of(due.interval)
    return None if seconds is None else max(seconds, 60.0)
