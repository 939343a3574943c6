"""Celery's beat, which takes its schedules from the catalogs of all sites.

Schedules live where the work is (docs/decisions/0004), not in a file or Redis: a
restored site has its schedules, and losing Redis loses none. Beat reads them again and
again, so a change takes effect without a restart. Several beats may run.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from celery import Celery
from celery.beat import Scheduler
from sqlalchemy import Connection

from deferred import runs, schedules
from deferred.schedules import Schedule
from groups import unfinished
from sites import Site
from sites.configured import configured
from sites.sessions import identity
from snapshots.definitions import lateness
from snaptide import scheduled
from snaptide.application import RECOVER, enqueue
from snaptide.asking import said_of
from snaptide.backoff_logger import BackoffLogger

log = logging.getLogger(__name__)

#: Seconds between two looks at the catalogs.
PACE = 1.0

#: Looks in a second, at most, unless more schedules are due. Where there are more
#: sites, each is looked at when its next schedule is due, and in turn with others.
LOOKS = 50

#: Seconds between two recoveries of a site: transactions that a coordinator left
#: prepared may hold their locks for so long.
RECOVERY = 60.0

#: So many tasks of a site may wait for a worker besides one for each schedule: Redis
#: keeps all, also those that have expired, until a worker takes them.
ENOUGH = 20

#: Seconds between two notes in a site's catalog that beat looks at it.
NOTES = 10.0


class CatalogScheduler(Scheduler):
    """Reads which schedules are due at each site; no site waits for another."""

    def __init__(self, app: Celery, *args: Any, **kwargs: Any) -> None:
        self._looks: dict[str, Look] = {}
        self._pool: ThreadPoolExecutor | None = None
        super().__init__(app, *args, **kwargs)

    def setup_schedule(self) -> None:
        """Start looking at the sites."""
        sites = configured().directory.values()
        turn = pause_for(len(sites))
        self._looks = {site.name: Look(self.app, site, turn) for site in sites}
        self._pool = ThreadPoolExecutor(
            max_workers=max(len(self._looks), 1), thread_name_prefix="snaptide-beat"
        )

    def tick(self, *_args: Any, **_kwargs: Any) -> float:
        """Look at every site whose last look is over; returns the pause in seconds."""
        if self._pool is not None:
            for look in self._looks.values():
                look.begin(self._pool)
        return PACE

    def close(self) -> None:
        """Stop looking."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        super().close()

    @property
    def info(self) -> str:
        """The line that beat prints when it starts."""
        return f"    . sites -> {', '.join(self._looks)}"


def pause_for(sites: int) -> float:
    """The seconds between two looks at a site where nothing is due.

    A pause of one second is none: each tick of beat looks at all sites.
    """
    return max(PACE, sites / LOOKS)


class Look:
    """Looks at one site's schedules again and again, one look at a time.

    Parameters:
        turn: the seconds after which a change of the schedules is seen.
    """

    def __init__(self, app: Celery, site: Site, turn: float = PACE) -> None:
        self._app = app
        self._site = site
        self._turn = turn
        self._look_at = 0.0
        self._backoff = BackoffLogger(log, f"Schedules of {site.name}")
        self._running: Future[None] | None = None
        self._recover_at = 0.0
        self._note_at = 0.0

    def begin(self, pool: ThreadPoolExecutor) -> None:
        """Look if it is time, and the last look neither runs nor failed just now."""
        if self._backoff.resting or (self._running and not self._running.done()):
            return
        if time.monotonic() < self._look_at:
            return
        self._running = pool.submit(self.look)

    def look(self) -> None:
        """Claim the schedules that are due and send their tasks to the workers."""
        try:
            self._note()
            # If a task cannot be sent, the claim rolls back and its schedule stays due.
            with identity.initialised(self._site) as connection:
                claimed = schedules.claim(connection)
                for due, late in lateness.most_late_first(connection, claimed):
                    if due.asked_at is not None and self._is_enough(connection):
                        schedules.put_back(connection, due)
                    else:
                        self._send(due, late)
                if self._turn > PACE:
                    self._pause(schedules.next_due(connection))
            self._recover()
        except Exception as error:
            # No caller reads the result of a look: log the failure here.
            self._backoff.failed(said_of(self._site, error))
        else:
            self._backoff.over()

    def _pause(self, due: float | None) -> None:
        """Look again when a schedule is due, or when it is this site's turn.

        Parameters:
            due: the seconds until then; None if none ever is.
        """
        pause = self._turn if due is None else min(due, self._turn)
        # A tick may come just before the second is over.
        self._look_at = time.monotonic() + pause - PACE / 2

    def _note(self) -> None:
        """Note every now and then that beat looks, for `snaptide status`."""
        now = time.monotonic()
        if now >= self._note_at:
            with identity.initialised(self._site) as connection:
                runs.note_look(connection)
            self._note_at = now + NOTES

    def _recover(self) -> None:
        """Ask for a recovery every minute, if the site has anything for it to do.

        That needs no schedule.
        """
        now = time.monotonic()
        if now >= self._recover_at:
            with identity.initialised(self._site) as connection:
                wanted = unfinished.may_have_work(connection)
                wanted = wanted and not self._is_enough(connection)
            if wanted:
                enqueue(self._app, RECOVER, self._site.name, expires=RECOVERY)
            self._recover_at = now + RECOVERY

    def _is_enough(self, connection: Connection) -> bool:
        """Whether so many tasks wait that one more would change nothing."""
        most = ENOUGH + schedules.count(connection)
        return scheduled.waiting(self._app, self._site.name) >= most

    def _send(self, due: Schedule, late: float) -> None:
        scheduled.send(self._app, self._site.name, due, late)
        log.info("%s %s %s is due.", due.kind, self._site.name, due.subject)
