"""Repairs of saved checks: each is planned, looked at, and then done.

Both take long, so threads do them while pages say how far they are. A plan is kept in
memory, the last of each check; what is done stands in the log of actions.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

import snapshots
from sites import Site
from sites.sessions import activity
from snapshots import PlannedRow, RectifyReport
from snapshots.rectify.choose import Policy
from snaptide.check_words import rectified
from snaptide.web.action_log import Note, noted
from snaptide.web.questions import Answer, answer_of
from snaptide.web.users import User

#: So many are planned or done at once, and so many are kept.
AT_ONCE, KEPT = 4, 50


@dataclass(slots=True, kw_only=True, eq=False)
class Repair:
    """The repair of one saved check."""

    site: Site
    run: int
    policy: Policy
    #: tells it from other plans for the same check
    number: int
    plan: Future[Answer[RectifyReport]]
    #: None until somebody says that it is to be done
    result: Future[Answer[RectifyReport]] | None = None

    @property
    def latest(self) -> Future[Answer[RectifyReport]]:
        """What is or was done last about it."""
        return self.result or self.plan

    @property
    def report(self) -> RectifyReport | None:
        """The plan; None if there is none, or not yet."""
        return self.plan.result().value if self.plan.done() else None


class Repairs:
    """The repairs that a console knows of; one for each saved check."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="snaptide-repair")
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, int], Repair] = OrderedDict()
        self._planned = 0

    def of(self, site: Site, run: int) -> Repair | None:
        """The repair of a check, if one has been planned here."""
        return self._known.get((site.name, run))

    def plan(self, site: Site, run: int, policy: Policy) -> None:
        """Begin to plan a repair anew, unless it is being planned or done."""
        key = site.name, run
        with self._lock:
            known = self._known.get(key)
            if known is not None and not known.latest.done():
                return
            self._planned += 1
            question = partial(_planned, run=run, policy=policy)
            self._known[key] = Repair(
                site=site,
                run=run,
                policy=policy,
                number=self._planned,
                plan=self._pool.submit(answer_of, site, question),
            )
            self._known.move_to_end(key)
            while len(self._known) > KEPT:
                self._known.popitem(last=False)

    def begin(self, repair: Repair, user: User, command: str) -> None:
        """Begin to do what was planned; once only.

        Parameters:
            command: the command line that does the same, for the log of actions.
        """
        assert repair.report is not None
        rows = [row for one in repair.report.snapshots for row in one.rows]
        note = partial(noted, repair.site, user, command)
        question = partial(_done, run=repair.run, rows=rows, note=note)
        with self._lock:
            if repair.result is None:
                repair.result = self._pool.submit(answer_of, repair.site, question)

    def close(self) -> None:
        """Begin no more, and wait for those that run: Python that ends stops them."""
        self._pool.shutdown(cancel_futures=True)


def _planned(site: Site, *, run: int, policy: Policy) -> RectifyReport:
    with activity.report(site, "rectify", f"{run} --dry-run") as progress:
        return snapshots.rectify(
            site,
            run=run,
            reference=policy.reference,
            extra=policy.extra,
            missing=policy.missing,
            dry_run=True,
            most=None,
            progress=progress,
        )


def _done(
    site: Site,
    *,
    run: int,
    rows: Sequence[PlannedRow],
    note: Callable[[], AbstractContextManager[Note]],
) -> RectifyReport:
    """Mend the rows that were planned, and no others."""
    with note() as noting, activity.report(site, "rectify", str(run)) as progress:
        report = snapshots.rectify(site, plan=rows, progress=progress)
        noting.outcome = rectified(report)
    return report
