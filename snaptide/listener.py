"""A worker listens for commits at its sites, and has each pushed at once.

One thread waits for the notifications of all sites, by LISTEN and NOTIFY; what it hears
is done in the threads of `small_pushes`. The trigger notifies at most once in 100 ms
for all sessions, because NOTIFY takes a lock. So the queue is looked at once more after
a short window, and also at long intervals without a notification. Nothing depends on
it: a schedule or the next look finds the calls that it misses.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterable, Sequence
from typing import Any

import psycopg
from celery import Celery, bootsteps

from sites import Site
from sites.configured import configured
from sites.errors import OtherSchema, SiteNotInitialised, SnaptideError
from snaptide.application import sites_of
from snaptide.asking import said_of
from snaptide.backoff_logger import LONGEST, BackoffLogger
from snaptide.small_pushes import SmallPushes

log = logging.getLogger(__name__)

CHANNEL = "snaptide_push"

#: Seconds until the next look, if the last one left calls waiting.
SOON = 1.0

Session = psycopg.AsyncConnection[Any]


class Listen(bootsteps.StartStopStep):
    """The step by which Celery starts and stops the listening of each worker."""

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        self._listening: Listening | None = None

    def include_if(self, parent: Any) -> bool:
        """Whether the settings let workers listen."""
        return bool(parent.app.conf.snaptide_listen["listen"])

    def start(self, parent: Any) -> None:
        """Listen to the sites whose queues the worker takes."""
        directory = configured().directory
        sites = [directory[n] for n in sites_of(parent.app) if n in directory]
        self._listening = Listening(parent.app, sites)
        self._listening.start()

    def stop(self, parent: Any) -> None:
        """Stop listening, before the worker ends or when it cannot start."""
        if self._listening is not None:
            self._listening.stop()
            self._listening = None

    terminate = stop


class Listening:
    """The thread that listens to some sites."""

    def __init__(self, app: Celery, sites: Sequence[Site]) -> None:
        self._app = app
        self._sites = sites
        self._stopping: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._listen()),
            name="snaptide-listener",
            daemon=True,
        )

    def start(self) -> None:
        """Start listening."""
        self._thread.start()
        self._ready.wait()

    def stop(self) -> None:
        """Stop listening, and wait for the pushes that run: each ends soon."""
        if self._stopping is not None:
            loop, stopping = self._stopping
            loop.call_soon_threadsafe(stopping.set)
            self._thread.join()

    async def _listen(self) -> None:
        stopping = asyncio.Event()
        self._stopping = asyncio.get_running_loop(), stopping
        self._ready.set()
        how = self._app.conf.snaptide_listen
        with SmallPushes(self._app, lasting=how["poll"]) as pushes:
            each = [
                asyncio.create_task(
                    Listener(
                        site, pushes, debounce=how["debounce"], poll=how["poll"]
                    ).run()
                )
                for site in self._sites
            ]
            await stopping.wait()
            await _cancelled(each)


class Listener:
    """Has the queue of one site pushed when its users commit."""

    def __init__(
        self, site: Site, pushes: SmallPushes, *, debounce: float, poll: float
    ) -> None:
        self._site = site
        self._pushes = pushes
        self._debounce = debounce
        self._poll = poll
        self._listening = BackoffLogger(log, f"Listening to {site.name}")

    async def run(self) -> None:
        """Listen until cancelled; connect again when the connection is lost."""
        while True:
            try:
                async with await self._connect() as session:
                    await session.execute(f"LISTEN {CHANNEL}")
                    # Push the calls committed while no listener was connected.
                    done = await self._pushes.look(self._site)
                    self._listening.over()
                    await self._follow(session, done=done)
            except Exception as error:
                # No caller waits for this: say here whatever ends it, and go on.
                told = await self._pushes.aside(said_of, self._site, error)
                await asyncio.sleep(self._leave_alone(told))

    def _leave_alone(self, error: SnaptideError) -> float:
        """Log the error; returns the seconds until the next try.

        It does not log that a site has no schema, or one of another version: the look
        at its schedules does.
        """
        if isinstance(error, SiteNotInitialised | OtherSchema):
            return LONGEST
        return self._listening.failed(error)

    async def _connect(self) -> Session:
        return await psycopg.AsyncConnection.connect(
            self._site.libpq_uri(),
            autocommit=True,
            connect_timeout=10,
            application_name="snaptide-listener",
        )

    async def _follow(self, session: Session, *, done: bool) -> None:
        """Have the first commit pushed at once, and what its window brings after it."""
        while True:
            # The broker did not answer, or another push was at work.
            await _told(session, self._poll if done else min(self._poll, SOON))
            await self._pushes.look(self._site)
            await asyncio.sleep(self._debounce)
            await _told(session, 0)  # the look that follows answers these
            done = await self._pushes.look(self._site)


async def _told(session: Session, seconds: float) -> None:
    """Wait for a notification, at most so long; forget those that have arrived."""
    stop_after = 1 if seconds else None
    async for _ in session.notifies(timeout=seconds, stop_after=stop_after):
        pass


async def _cancelled(tasks: Iterable[asyncio.Task[None]]) -> None:
    tasks = list(tasks)
    for one in tasks:
        one.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
