"""What a worker does besides its tasks: it has Spark ready, and says that it is there.

Only workers that can refresh do so. Where the extra `spark` is not installed, where no
site of the worker has a snapshot, or where the settings say so, Spark is not started
before a task needs it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence

import psycopg
from celery import Celery, signals
from celery.concurrency import solo, thread
from sqlalchemy import exists, select
from sqlalchemy.exc import SQLAlchemyError

from sites import extras
from sites.configured import site
from sites.errors import SnaptideError, in_one_line
from snapshots.catalog import refresh_group
from snapshots.differences import warming
from snaptide.presence import Presence

log = logging.getLogger(__name__)

#: Seconds for which a comparison waits for tasks that run; some run for hours.
GIVES_WAY = 2.0

#: Seconds in which threads end that were told to.
_SOON = 10.0

#: A JVM belongs to the process that started it, and other pools fork.
_POOLS = (solo.TaskPool, thread.TaskPool)


def begin(app: Celery, pool: object, sites: Sequence[str]) -> None:
    """Start what a worker that is ready needs, and end it with the worker.

    Parameters:
        pool: how the worker runs its tasks.
        sites: whose tasks it takes.
    """
    try:
        extras.require("spark")
    except extras.MissingExtra:
        return
    presence, warms = Presence(app.conf.broker_url, sites), Warming(sites)
    presence.start()
    if app.conf.snaptide_warm and isinstance(pool, _POOLS):
        warms.start()

    def end(**_: object) -> None:
        presence.stopping.set()
        warms.stopping.set()

    def join(**_: object) -> None:
        end()
        warms.give_up()
        presence.join(timeout=_SOON)

    for signal, handler in (
        (signals.worker_shutting_down, end),
        (signals.worker_shutdown, join),
        (signals.task_prerun, warms.note_begin),
        (signals.task_postrun, warms.note_end),
    ):
        signal.connect(handler, weak=False)


class Warming(threading.Thread):
    """Starts Spark and warms it, and lets tasks go first.

    Parameters:
        sites: those of the worker.
    """

    def __init__(self, sites: Sequence[str]) -> None:
        super().__init__(name="snaptide-warming", daemon=True)
        self.stopping = threading.Event()
        self._sites = sites
        self._running: set[str] = set()

    def run(self) -> None:
        """Warm Spark, if a site of the worker has snapshots."""
        if self._has_snapshots():
            self.warm()

    def warm(self) -> None:
        """Start Spark and compare until it is warm, or until the worker ends."""
        began = step = time.monotonic()
        try:
            for _ in warming.comparisons():
                # Half of one core is left to others.
                self.stopping.wait(min(time.monotonic() - step, GIVES_WAY))
                self._give_way()
                if self.stopping.is_set():
                    return
                step = time.monotonic()
        except SnaptideError as error:
            if not self.stopping.is_set():
                log.warning("Spark could not be warmed: %s", in_one_line(error))
            return
        log.info("Spark is warm, after %.0f s.", time.monotonic() - began)
        if warming.keep_classes(self.stopping):
            log.info("Later starts of Spark on this machine will take half the time.")

    def give_up(self) -> None:
        """End the thread; if Spark is not started yet, it will not be."""
        self.stopping.set()
        if self.is_alive():
            warming.give_up()
            self.join(timeout=_SOON)

    def note_begin(self, task_id: str, **_: object) -> None:
        """Note that the worker runs a task."""
        self._running.add(task_id)

    def note_end(self, task_id: str, **_: object) -> None:
        """Note that the task has ended."""
        self._running.discard(task_id)

    def _has_snapshots(self) -> bool:
        return any(_has_snapshots(n) for n in self._sites if not self.stopping.is_set())

    def _give_way(self) -> None:
        until = time.monotonic() + GIVES_WAY
        while self._running and time.monotonic() < until:
            if self.stopping.wait(0.1):
                return


def _has_snapshots(name: str) -> bool:
    """Whether a site has snapshots; not if it does not answer."""
    try:
        with site(name).session() as connection:
            found = select(exists().select_from(refresh_group))
            return bool(connection.scalar(found))
    except (SnaptideError, SQLAlchemyError, psycopg.Error):
        return False
