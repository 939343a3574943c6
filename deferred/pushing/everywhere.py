"""Pushing to several destinations at the same time; no push waits for another."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from dataclasses import dataclass
from typing import Unpack

from deferred.options import PushArguments, PushOptions
from deferred.pushing.push import destinations, push
from deferred.pushing.report import PushReport
from sites import Site
from sites.errors import SnaptideError
from sites.progress import Progress

#: Destinations that are pushed to at the same time.
MOST = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushes:
    """The results of pushes to several destinations."""

    reports: tuple[PushReport, ...]
    #: the errors of failed pushes, in the order of the destinations
    errors: tuple[SnaptideError, ...]

    def raise_first(self) -> None:
        """Raise the first of the errors, if there are any."""
        if self.errors:
            raise self.errors[0]


def push_all(
    site: Site,
    names: Sequence[str] | None = None,
    *,
    shown: Callable[[str], AbstractContextManager[Progress | None]] | None = None,
    stop: Callable[[], bool] | None = None,
    **options: Unpack[PushArguments],
) -> Pushes:
    """Push to each destination; a slow or unreachable one delays no other.

    Parameters:
        site: the origin.
        names: the destinations; all when not given.
        shown: gives, for the time of the push to a destination, the function that is
            called with its progress.
        stop: when it returns True, each push ends between two commits.
        **options: as `push` has them.

    Raises:
        BadOption, SiteUnreachable, SiteChanged: nothing was pushed.
        KeyboardInterrupt: each push has ended, after its last commit.
    """
    PushOptions.of(options)
    interrupted = threading.Event()

    def over() -> bool:
        return interrupted.is_set() or (stop is not None and stop())

    def one(name: str) -> PushReport | SnaptideError:
        try:
            with shown(name) if shown else nullcontext() as progress:
                return push(site, name, progress=progress, stop=over, **options)
        except SnaptideError as error:
            return error

    chosen = destinations(site) if names is None else list(names)
    if len(chosen) == 1:
        ended = [one(chosen[0])]  # in this thread, for interrupts
    else:
        with ThreadPoolExecutor(max_workers=MOST, thread_name_prefix="push") as pool:
            try:
                # Each push is below the span that is open here.
                own = [copy_context() for _ in chosen]
                ended = list(pool.map(lambda c, name: c.run(one, name), own, chosen))
            finally:
                interrupted.set()
    return Pushes(
        reports=tuple(e for e in ended if isinstance(e, PushReport)),
        errors=tuple(e for e in ended if isinstance(e, SnaptideError)),
    )
