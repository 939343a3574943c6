"""Asks sites side by side, and waits for none of them longer than two seconds.

The seconds count from when the question was asked, perhaps for another page, or when
the console began: what has been silent since then need not be awaited once more.

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

#: A site and the kind of a question.
_Key = tuple[str, Hashable]

#: The kind of the question how a site is.
STATE = "status"

#: Seconds that a page waits for a site, and for one that was silent the last time.
PATIENCE, GLANCE = 2.0, 0.2


@dataclass(frozen=True, slots=True)
class _UnderWay:
    """A question that has been asked, and when."""

    future: Future[Answer[Any]]
    began: float


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
        state: the question `STATE`. A site that is silent to it is asked nothing else,
            so that it holds one thread, however many kinds of pages are open.
    """

    def __init__(
        self,
        most: int,
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.monotonic,
        state: Callable[[Site], object] | None = None,
    ) -> None:
        self.patience = patience
        self._clock = clock
        self._state = state
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="snaptide-web")
        self._lock = threading.Lock()
        self._open: dict[_Key, _UnderWay] = {}
        #: since when a site has not answered, by the key of its question
        self._silent: dict[_Key, float] = {}

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
        away = self._still_away(sites, what)
        asked = {
            name: self._begin(site, what, question)
            for name, site in sites.items()
            if name not in away
        }
        self._wait(asked, what)
        answers = {
            name: self._answer((name, what), sites[name], one)
            for name, one in asked.items()
        }
        return {name: away.get(name) or answers[name] for name in sites}

    def begin(
        self, site: Site, what: Hashable, question: Callable[[Site], Found]
    ) -> Future[Answer[Found]]:
        """Ask one site without waiting; the question may be under way already."""
        return self._begin(site, what, question).future

    def close(self) -> None:
        """Begin no more questions."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _still_away(
        self, sites: Mapping[str, Site], what: Hashable
    ) -> dict[str, Answer[Any]]:
        """The answers of sites that do not say how they are, either.

        Only those are asked first that were silent to some question; it may be that
        one alone which takes long.
        """
        if self._state is None or what == STATE:
            return {}
        silent = [*self._silent]
        some = {name for name, _ in silent}
        asked = {
            name: site
            for name, site in sites.items()
            if (name, STATE) in silent or (name in some and (name, what) not in silent)
        }
        states = self.ask_all(asked, STATE, self._state)
        return {name: answer for name, answer in states.items() if answer.away}

    def _begin(
        self, site: Site, what: Hashable, question: Callable[[Site], Found]
    ) -> _UnderWay:
        key = (site.name, what)
        with self._lock:
            if key in self._open:
                return self._open[key]
            future = self._pool.submit(answer_of, site, question)
            asked = self._open[key] = _UnderWay(future, self._clock())
        future.add_done_callback(partial(self._ended, key, asked))
        return asked

    def _wait(self, asked: Mapping[str, _UnderWay], what: Hashable) -> None:
        """Wait as long as patience lasts since each question was asked.

        A site that was silent the last time is awaited no longer than a glance: it is
        shown as soon as it is back.
        """
        glance = self._clock() + min(GLANCE, self.patience)
        until = {
            name: glance
            if (name, what) in self._silent
            else max(glance, one.began + self.patience)
            for name, one in asked.items()
        }
        for name in sorted(until, key=until.__getitem__):
            wait([asked[name].future], max(until[name] - self._clock(), 0.0))

    def _ended(self, key: _Key, asked: _UnderWay, future: Future[Answer[Any]]) -> None:
        with self._lock:
            self._open.pop(key, None)
            if future.cancelled():
                return
            if not future.result().away:
                self._is_back(key)
            elif self._clock() - asked.began > self.patience:
                # Also if no page has waited for it: the next would wait in vain.
                self._silent.setdefault(key, asked.began)

    def _is_back(self, key: _Key) -> None:
        """Forget the silence of a question, or with that of STATE all of its site."""
        for one in [*self._silent]:
            of_site = key[1] == STATE and one[0] == key[0] and one not in self._open
            if one == key or of_site:
                del self._silent[one]

    def _answer(self, key: _Key, site: Site, asked: _UnderWay) -> Answer[Any]:
        if asked.future.done():
            return asked.future.result()
        with self._lock:
            since = self._silent.setdefault(key, asked.began)
        seconds = self._clock() - since
        text = f"Site {site.name} has not answered for {seconds:.0f} seconds."
        return Answer(error=SiteUnreachable(text, site=site.name))


def answer_of(site: Site, question: Callable[[Site], Found]) -> Answer[Found]:
    """Ask a site; whatever fails is an answer, too."""
    try:
        return Answer(value=question(site))
    except Exception as error:
        return Answer(error=said_of(site, error))
