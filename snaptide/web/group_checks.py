"""Checks of masters: each runs in a thread, while pages say that it does.

No site keeps them: what they found is in memory, the last ones of all, and is forgotten
when the console stops.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import groups
from groups import GroupCheckReport
from sites import Site
from sites.sessions import activity
from snaptide.web.questions import Answer, answer_of

#: So many run at once, and so many are kept.
AT_ONCE, KEPT = 2, 50


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupCheck:
    """A check of the masters of a group, which may still run."""

    number: int
    #: the name of the site that was asked for it
    site: str
    group: str
    #: who asked for it, and when
    user: str
    at: datetime
    result: Future[Answer[GroupCheckReport]]

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return not self.result.done()

    @property
    def answer(self) -> Answer[GroupCheckReport]:
        """What it found, or why it failed; empty while it runs."""
        return Answer() if self.running else self.result.result()


class GroupChecks:
    """The checks of masters that a console has run."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="snaptide-check")
        self._lock = threading.Lock()
        self._known: deque[GroupCheck] = deque(maxlen=KEPT)
        self._begun = 0

    def of(self, site: Site, group: str) -> list[GroupCheck]:
        """Those of a group that were begun at a site, the latest first."""
        there = site.name, group
        return [one for one in [*self._known] if (one.site, one.group) == there]

    def find(self, site: Site, number: int) -> GroupCheck | None:
        """The check of a number, if it was begun at the site and is still known."""
        there = site.name, number
        known = (one for one in [*self._known] if (one.site, one.number) == there)
        return next(known, None)

    def begin(self, site: Site, group: str, user: str) -> GroupCheck:
        """Begin to check a group, unless that runs already; the check in either case.

        Parameters:
            user: the name of the user who asks for it.
        """
        with self._lock:
            for one in self.of(site, group):
                if one.running:
                    return one
            self._begun += 1
            question = partial(_checked, group=group)
            begun = GroupCheck(
                number=self._begun,
                site=site.name,
                group=group,
                user=user,
                at=datetime.now(UTC),
                result=self._pool.submit(answer_of, site, question),
            )
            self._known.appendleft(begun)
        return begun

    def close(self) -> None:
        """Begin no more, and wait for those that run: Python that ends stops them."""
        self._pool.shutdown(cancel_futures=True)


def _checked(site: Site, *, group: str) -> GroupCheckReport:
    with activity.report(site, "check", group) as progress:
        return groups.check(site, group, progress=progress)
