"""Asks sites side by side, and waits for none of them longer than two seconds.

A site that does not answer costs one thread and one connection, however often its page
is loaded: the next request waits for the question that is under way.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from sites import Site
from sites.errors import SiteUnreachable, SnaptideError
from snaptide.asking import said_of

Found = TypeVar("Found")

#: Seconds that a page waits for a site, and for one that was silent the last time.
PATIENCE, GLANCE = 2.0, 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Generic[Found]):
    """What a site answered, or why it did not."""

    value: Found | None = None
    error: SnaptideError | None = None

    @property
    def away(self) -> bool:
        """Whether the site does not answer at all."""
        return isinstance(self.error, SiteUnreachable)


class Questions:
    """Questions that are under way; one of a kind for each site.

    Parameters:
        most: how many run at once.
        patience: seconds that a page waits for a site.
    """

    def __init__(self, most: int, patience: float = PATIENCE) -> None:
        self.patience = patience
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="snaptide-web")
        self._lock = threading.Lock()
        self._open: dict[Hashable, Future[Answer[Any]]] = {}
        #: since when a site has not answered, by the key of its question
        self._silent: dict[Hashable, float] = {}

    def ask(
        self, site: Site, what: Hashable, question: Callable[[Site], Found]
    ) -> Found:
        """Ask one site.

        Parameters:
            what: the same for questions that have the same answer.

        Raises:
            SnaptideError: what the site said, or SiteUnreachable.
        """
        answer = self.ask_all({site.name: site}, what, question)[site.name]
        if answer.error is not None:
            raise answer.error
        return answer.value  # type: ignore[return-value]

    def ask_all(
        self,
        sites: Mapping[str, Site],
        what: Hashable,
        question: Callable[[Site], Found],
    ) -> dict[str, Answer[Found]]:
        """Ask sites at once; each answers, or its answer says why it does not."""
        began = {name: self.begin(site, what, question) for name, site in sites.items()}
        # Wait for a silent site once, and then look only whether it is back.
        silent = {name for name in began if (name, what) in self._silent}
        until = time.monotonic() + min(GLANCE, self.patience)
        wait([f for name, f in began.items() if name not in silent], self.patience)
        wait([began[name] for name in silent], max(until - time.monotonic(), 0.0))
        return {
            name: self._answer((name, what), sites[name], future)
            for name, future in began.items()
        }

    def begin(
        self, site: Site, what: Hashable, question: Callable[[Site], Found]
    ) -> Future[Answer[Found]]:
        """Ask one site without waiting; the question may be under way already."""
        key = (site.name, what)
        with self._lock:
            if key in self._open:
                return self._open[key]
            future = self._pool.submit(answer_of, site, question)
            self._open[key] = future
        future.add_done_callback(partial(self._ended, key))
        return future

    def close(self) -> None:
        """Begin no more questions."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _ended(self, key: Hashable, future: Future[Answer[Any]]) -> None:
        with self._lock:
            self._open.pop(key, None)
            # Who gave up on it will have to give up the next time, too.
            if not future.cancelled() and not future.result().away:
                self._silent.pop(key, None)

    def _answer(
        self, key: Hashable, site: Site, future: Future[Answer[Found]]
    ) -> Answer[Found]:
        if future.done():
            return future.result()
        now = time.monotonic()
        with self._lock:
            since = self._silent.setdefault(key, now - self.patience)
        text = f"Site {site.name} has not answered for {now - since:.0f} seconds."
        return Answer(error=SiteUnreachable(text, site=site.name))


def answer_of(site: Site, question: Callable[[Site], Found]) -> Answer[Found]:
    """Ask a site; whatever fails is an answer, too."""
    try:
        return Answer(value=question(site))
    except Exception as error:
        return Answer(error=said_of(site, error))
