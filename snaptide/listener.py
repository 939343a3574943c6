"""Asks for a push as soon as a user commits deferred calls, by LISTEN and NOTIFY.

The trigger notifies at most once in 100 ms for all sessions, because NOTIFY takes
a lock. So a listener looks at the queue once more after a short window, and also at
long intervals without a notification. Nothing depends on it: a schedule or the next
look finds the calls that it misses.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from typing import Any

import psycopg
from celery import Celery
from sqlalchemy.exc import SQLAlchemyError

from deferred.queues.backlog import waiting_destinations
from sites import Site
from sites.configured import configured
from sites.errors import SiteNotInitialised, SnaptideError
from sites.sessions.site import autocommit
from snaptide.application import PUSH, enqueue
from snaptide.asking import said_of
from snaptide.backoff_logger import LONGEST, BackoffLogger
from snaptide.request_limiter import RequestLimiter

log = logging.getLogger(__name__)

CHANNEL = "snaptide_push"

#: A listener notices within so many seconds that it is to stop.
_STOP_WITHIN = 0.5

Session = psycopg.Connection[Any]


class Listeners:
    """The listeners of this process: one thread per site."""

    def __init__(self, threads: Iterable[Listener]) -> None:
        self._threads = list(threads)

    @classmethod
    def of(cls, app: Celery) -> Listeners:
        """Listeners to all configured sites; none if the settings turn them off."""
        how = app.conf.get("snaptide_listen") or {}
        if not how.get("listen", True):
            return cls([])
        return cls(
            Listener(app, site, debounce=how["debounce"], poll=how["poll"])
            for site in configured().directory.values()
        )

    def start(self) -> None:
        """Start listening."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop listening, and wait at most 2 seconds for each thread to end."""
        for thread in self._threads:
            thread.stopping.set()
        for thread in self._threads:
            thread.join(timeout=4 * _STOP_WITHIN)


class Listener(threading.Thread):
    """Asks for pushes of one site when its users commit."""

    def __init__(
        self, app: Celery, site: Site, *, debounce: float = 0.2, poll: float = 30.0
    ) -> None:
        super().__init__(name=f"snaptide-listener-{site.name}", daemon=True)
        self.stopping = threading.Event()
        self._app = app
        self._site = site
        self._debounce = debounce
        self._poll = poll
        self._listening = BackoffLogger(log, f"Listening to {site.name}")
        self._sending = BackoffLogger(log, f"Pushes of {site.name}")
        self._requests = RequestLimiter(lasting=poll)

    def run(self) -> None:
        """Listen until told to stop; connect again when the connection is lost."""
        while not self.stopping.is_set():
            try:
                with self._connect() as session:
                    session.execute(f"LISTEN {CHANNEL}")
                    # Push the calls committed while no listener was connected.
                    self._ask()
                    self._listening.over()
                    self._follow(session)
            except (psycopg.Error, SnaptideError, SQLAlchemyError) as error:
                self.stopping.wait(self._leave_alone(said_of(self._site, error)))

    def _leave_alone(self, error: SnaptideError) -> float:
        """Log the error; returns the seconds until the next try.

        It does not log that a site has no schema: the look at its schedules does.
        """
        if isinstance(error, SiteNotInitialised):
            return LONGEST
        return self._listening.failed(error)

    def _connect(self) -> Session:
        return psycopg.connect(
            self._site.libpq_uri(),
            autocommit=True,
            connect_timeout=10,
            application_name="snaptide-listener",
        )

    def _follow(self, session: Session) -> None:
        """Ask at once for the first commit, and once for all of the window after it."""
        while not self.stopping.is_set():
            self._sleep_until_told(session)
            if self.stopping.is_set():
                return
            self._ask()
            self.stopping.wait(self._debounce)
            _forget_told(session)
            self._ask()

    def _sleep_until_told(self, session: Session) -> None:
        """Wait for a notification, at most until the next look is due."""
        # If the broker did not answer, try it again soon.
        seconds_left = min(self._poll, 1.0) if self._sending.resting else self._poll
        while seconds_left > 0 and not self.stopping.is_set():
            for _ in session.notifies(timeout=_STOP_WITHIN, stop_after=1):
                return
            seconds_left -= _STOP_WITHIN

    def _ask(self) -> None:
        """Enqueue a push to each destination that has calls waiting.

        As long as no push is done, it enqueues only a few requests.
        """
        try:
            with self._site.session() as connection, autocommit(connection):
                waiting = waiting_destinations(connection)
            for name, pushed_at in waiting.items():
                if not self._requests.is_enough(name, pushed_at):
                    enqueue(self._app, PUSH, self._site.name, name, expires=self._poll)
                    self._requests.note(name)
        except SnaptideError as error:
            self._sending.failed(error)
        else:
            self._sending.over()


def _forget_told(session: Session) -> None:
    """Drop notifications that have arrived: the look that follows answers them."""
    for _ in session.notifies(timeout=0):
        pass
