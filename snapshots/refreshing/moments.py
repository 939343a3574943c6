"""Reads both sides of a refresh, each at its own moment, and compares them.

The site's moment begins once the keys that executors need stand there: they see what
was committed before. A window is left to them if it has too many keys, which is known
at once, or rows that are too wide: with those of the site's own log, that is known only
in its moment, which then begins again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TypeAlias

from sqlalchemy import Connection, func, select

from sites import faults, traces
from sites.capture import position
from sites.conditions import ranges
from sites.progress import Progress
from sites.sessions import contacts
from sites.sessions.peers import Pair
from snapshots.definitions.refresh_notes import COMPARE
from snapshots.definitions.refresh_notes import LOAD as LOADING
from snapshots.differences import comparison, keys_twice, large, leaving
from snapshots.differences.comparison import Compared, Small
from snapshots.differences.window import LOAD, Member, Window
from snapshots.keys import Keys, Sides
from snapshots.refreshing import first_load
from snapshots.refreshing.first_load import Loaded
from snapshots.refreshing.task import Task, hold

#: What a window needs before the site's own moment, and how many seconds that took.
Ready: TypeAlias = "tuple[Keys | large.Prepared, float]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contact:
    """The contact of a refresh: both sides remember the moment that it reads.

    A contact commits, so it has sessions of its own besides those that hold the
    moments.
    """

    site: Connection
    master: Connection
    #: what the two remembered when the refresh began
    pair: Pair

    @classmethod
    def open(cls, task: Task, pair: Pair, until: ExitStack) -> Contact:
        """Open a second session at both sides.

        A refresh that waited for them would keep its first ones from others that wait
        too. So it does not: it gives back what it has and begins anew. Whoever has both
        can go on, and leaves one place at the master for what is read outside the pool.

        Raises:
            NoConnectionFree: there is none.
        """
        site, master = (
            until.enter_context(one.session(waits=False))
            for one in (task.site, task.master)
        )
        return cls(site=site, master=master, pair=pair)

    def meet(self, seen: Window) -> None:
        """Have both sides remember a window, so that a restored master is recognized.

        Closes the sessions.
        """
        pair = replace(self.pair, master=seen.master)
        contacts.meet(self.site, self.master, pair)()
        self.site.close()
        self.master.close()


@traces.span("compare")
def read_and_compare(
    task: Task,
    sides: Sides,
    contact: Contact,
    seen: Window,
    progress: Progress | None,
) -> tuple[str, list[Compared], dict[str, Loaded]]:
    """Begin the site's own moment, and compare it with the master's.

    Parameters:
        contact: has both sides remember the window.

    Returns:
        The site's position, the differences, and by snapshot each first load.
    """
    master = sides.master.at
    for member in seen.members:
        if len(member.parts) > 1:
            keys_twice.refuse(master, member)
    known = [m for m in seen.members if m.method != LOAD]
    task.steps.begin(COMPARE)
    prepared = [_prepare(sides, member) for member in known]
    here, mine = _begin(sides, known, prepared)
    contact.meet(seen)
    # The connection still answers: the master has not been restored since.
    master.scalar(select(1))
    loaded = _load(task, master, seen, progress)
    task.steps.begin(COMPARE)
    faults.point("refresh.after_load")
    ready = [keys for keys, _ in prepared]
    found = _compare(sides, known, ready, mine)
    compared = [
        replace(
            leaving.tell_apart(sides, one) if one.may_leave else one,
            way=comparison.way_taken(sides, one, seconds),
        )
        for one, (_, seconds) in zip(found, prepared, strict=True)
    ]
    return here, compared, loaded


def _prepare(sides: Sides, member: Member, *, executors: bool = False) -> Ready:
    """The keys of the window, needed before the site's own moment begins.

    Parameters:
        executors: leave it to them, although its keys are few.
    """
    began = time.monotonic()
    found: Keys | large.Prepared | None = None
    if not executors:
        found = comparison.small_window(sides, member)
    if found is None:
        found = large.prepare(sides.site.site, sides.master.at, member)
    return found, time.monotonic() - began


def _begin(
    sides: Sides, known: Sequence[Member], prepared: list[Ready]
) -> tuple[str, list[Keys]]:
    """Begin the site's own moment, with windows that are too wide left to executors.

    Parameters:
        prepared: by member; what is too wide is replaced.

    Returns:
        The site's position, and by member the keys of the site's own log.
    """
    while True:
        sides.site.at.commit()
        here, apart = _hold(sides.site.at, known)
        mine = comparison.site_keys(sides.site, known)
        wide = [
            number
            for number, member in enumerate(known)
            if not isinstance(changed := prepared[number][0], large.Prepared)
            and comparison.is_too_wide(
                sides,
                Small(member=member, changed=changed, mine=mine[number]),
                apart.get(member.base.oid, 0),
            )
        ]
        if not wide:
            return here, mine
        for number in wide:
            prepared[number] = _prepare(sides, known[number], executors=True)


def _hold(site: Connection, members: Sequence[Member]) -> tuple[str, dict[int, int]]:
    """Begin one moment of the site as at the master, after locking all that is read.

    Returns:
        Its position, and by base table the bytes of values that are stored apart.

    Raises:
        UnknownTable: a base table is gone.
        PositionMoved: a base table was gone, and is there again.
    """
    tables = [member.base.qualified for member in members]
    gone = "A base table of the group was dropped during the refresh."
    hold(site, tables, gone=gone)
    apart = ranges.bytes_apart([member.base.oid for member in members])
    row = site.execute(select(position.CURRENT, apart.label("apart"))).one()
    return row.position, {int(oid): size for oid, size in (row.apart or {}).items()}


def _compare(
    sides: Sides,
    known: Sequence[Member],
    ready: Sequence[Keys | large.Prepared],
    mine: Sequence[Keys],
) -> list[Compared]:
    """The differences of all snapshots, in their order: small ones in one job."""
    small = [
        Small(member=member, changed=changed, mine=keys)
        for member, changed, keys in zip(known, ready, mine, strict=True)
        if not isinstance(changed, large.Prepared)
    ]
    compared = comparison.compare(sides, small)
    return [
        large.compare(sides, changed, keys)
        if isinstance(changed, large.Prepared)
        else next(compared)
        for changed, keys in zip(ready, mine, strict=True)
    ]


def _load(
    task: Task, master: Connection, seen: Window, progress: Progress | None
) -> dict[str, Loaded]:
    new = [m for m in seen.members if m.method == LOAD]
    if not new:
        return {}
    task.steps.begin(LOADING)
    task.master.release()
    moment = str(master.scalar(select(func.pg_export_snapshot())))
    return {
        m.snapshot.key: first_load.copy(
            task.site, task.master, master, moment, m, progress
        )
        for m in new
    }
