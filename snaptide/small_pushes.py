"""Pushes small queues in the process that listens, and has Celery push the others.

A commit is to be seen at the master at once, and a queue that the broker carries to a
task takes longer on the way than in the push. What is large, what fails, and what does
not come to its turn soon is a task for Celery's workers (docs/decisions/0014).
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Self, TypeVar

from celery import Celery

from deferred import runs, tasks
from deferred.pushing.push import push_small
from deferred.pushing.report import PushReport
from deferred.queues.backlog import Waiting, waiting_destinations
from sites import Site
from sites.errors import SiteUnreachable, SnaptideError, in_one_line
from snaptide.application import PUSH, enqueue
from snaptide.asking import as_told
from snaptide.backoff_logger import BackoffLogger, spread
from snaptide.request_limiter import RequestLimiter

log = logging.getLogger(__name__)

#: So many pushes run at once, however many sites there are; all but one of them may go
#: to one destination, so that one that hangs does not stop the others.
AT_ONCE = 4

#: So many threads look at queues, and ask for tasks.
LOOKING = 4

#: Seconds that a push may wait for its turn, and that it may take, between two commits.
PATIENCE = 1.0

#: Seconds after which, at the latest, a task repeats a push that failed, as Celery's
#: first retry does.
RETRY = 1.0

T = TypeVar("T")


class SmallPushes:
    """The threads that look and push for all sites of this process.

    Parameters:
        lasting: seconds after which a task that was asked for is not worth running.
    """

    def __init__(self, app: Celery, *, lasting: float) -> None:
        self._app = app
        self._lasting = lasting
        self._looks = ThreadPoolExecutor(LOOKING, thread_name_prefix="snaptide-look")
        self._pushes = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="snaptide-push")
        self._stopping = threading.Event()
        # Those that wait for a turn get it in the order in which they came.
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._turns_to: dict[str, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(AT_ONCE - 1)
        )
        self._away = _Backoffs("Pushing to {}")
        self._asking = _Backoffs("Pushes of {}")
        self._requests: dict[str, RequestLimiter] = defaultdict(
            lambda: RequestLimiter(lasting=lasting)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for what runs; pushes end after their next commit."""
        self._stopping.set()
        self._looks.shutdown()
        self._pushes.shutdown()

    async def aside(self, do: Callable[..., T], *arguments: Any) -> T:
        """Do something that waits for a database or the broker, in another thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._looks, do, *arguments)

    async def look(self, site: Site) -> bool:
        """Look what waits at a site, and have each destination pushed to.

        Returns:
            Whether nothing is left that another look has to see to soon.
        """
        try:
            waiting = await self.aside(_waiting, site)
            each = (self._carry(site, *item) for item in waiting.items())
            ended = await asyncio.gather(*each, return_exceptions=True)
            for error in ended:
                if isinstance(error, BaseException):
                    raise error
        except SnaptideError as error:
            self._asking[site.name].failed(error)
            return False
        self._asking[site.name].over()
        return all(ended)

    async def _carry(self, site: Site, name: str, found: Waiting) -> bool:
        """Push what waits for a destination, or ask for a task that does."""
        if found.many or self._away[name].resting:
            await self.aside(self._ask, site, name, found)
            return True
        async with AsyncExitStack() as turn:
            try:
                async with asyncio.timeout(PATIENCE):
                    for turns in (self._turns_to[name], self._turns):
                        await turn.enter_async_context(turns)
            except TimeoutError:
                await self.aside(self._ask, site, name, found)
                return True
            loop = asyncio.get_running_loop()
            push = partial(self._push, site, name, found)
            return await loop.run_in_executor(self._pushes, push)

    def _push(self, site: Site, name: str, found: Waiting) -> bool:
        until = time.monotonic() + PATIENCE
        try:
            report = push_small(
                site,
                name,
                stop=lambda: self._stopping.is_set() or time.monotonic() >= until,
            )
        except Exception as error:
            # Whatever it is, the task meets it too: it says so, and tries again.
            self._failed(site, name, found, as_told(error))
            return True
        self._away[name].over()
        return self._pushed(site, name, found, report)

    def _pushed(
        self, site: Site, name: str, found: Waiting, report: PushReport
    ) -> bool:
        if report.another_pusher:
            return False  # it may have looked before the last commit
        if report.transactions or report.held_back:
            tasks.tell(report)
        if found.noted:
            runs.note_success(site, "push", name)
        if report.unfinished and not self._stopping.is_set():
            self._ask(site, name, found)
        return True

    def _failed(
        self, site: Site, name: str, found: Waiting, error: SnaptideError
    ) -> None:
        """Leave a push that failed to a task, with its rules of trying again."""
        log.info("A task repeats push %s %s: %s", site.name, name, in_one_line(error))
        if isinstance(error, SiteUnreachable) and error.facts.get("site") == name:
            self._away[name].failed(error)
        self._ask(site, name, found, again_after=spread(RETRY))

    def _ask(self, site: Site, name: str, found: Waiting, **how: float) -> None:
        """Ask for a task; as long as none of them is done, only for a few."""
        requests = self._requests[site.name]
        if not requests.is_enough(name, found.pushed_at):
            enqueue(self._app, PUSH, site.name, name, expires=self._lasting, **how)
            requests.note(name)


class _Backoffs(dict[str, BackoffLogger]):
    """By name of a site, how it failed lately."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what

    def __missing__(self, name: str) -> BackoffLogger:
        return self.setdefault(name, BackoffLogger(log, self._what.format(name)))


def _waiting(site: Site) -> dict[str, Waiting]:
    with site.session() as connection:
        return waiting_destinations(connection)
