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
from functools import lru_cache
from typing import TypeAlias

from sqlalchemy import Connection, func, select

from sites import faults, traces
from sites.capture import position
from sites.conditions import ranges
from sites.progress import Progress
from sites.sessions import contacts
from sites.sessions.peers import Pair
from sites.sessions.prepared import Prepared, which
from snapshots import keys
from snapshots.definitions.refresh_notes import COMPARE
from snapshots.definitions.refresh_notes import LOAD as LOADING
from snapshots.definitions.snapshot import holds_keys
from snapshots.differences import comparison, keys_twice, large, leaving
from snapshots.differences.comparison import Compared, Small
from snapshots.differences.shared_job import MOST_BYTES
from snapshots.differences.window import FAST, LOAD, Member, Window
from snapshots.keys import Keys, Side, Sides
from snapshots.refreshing import first_load
from snapshots.refreshing.first_load import Loaded
from snapshots.refreshing.task import Task, hold

#: The logs of so many snapshots are read in one round trip.
TOGETHER = 20

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
    prepared = [
        ready
        for first in range(0, len(known), TOGETHER)
        for ready in _prepare(sides, known[first : first + TOGETHER])
    ]
    here, mine, sizes = _begin(sides, known, prepared)
    contact.meet(seen)
    # The connection still answers: the master has not been restored since.
    master.scalar(select(1))
    loaded = _load(task, master, seen, progress)
    task.steps.begin(COMPARE)
    faults.point("refresh.after_load")
    ready = [keys for keys, _ in prepared]
    found = _compare(sides, known, ready, mine, sizes)
    compared = [
        replace(
            leaving.tell_apart(sides, one) if one.may_leave else one,
            way=comparison.way_taken(sides, one, seconds),
        )
        for one, (_, seconds) in zip(found, prepared, strict=True)
    ]
    return here, compared, loaded


def _prepare(sides: Sides, members: Sequence[Member]) -> list[Ready]:
    """The keys of windows, needed before the site's own moment begins."""
    began = time.monotonic()
    found = comparison.small_windows(sides, members)
    share = (time.monotonic() - began) / len(members)
    return [
        _by_executors(sides, one, share) if keys is None else (keys, share)
        for one, keys in zip(members, found, strict=True)
    ]


def _by_executors(sides: Sides, member: Member, taken: float) -> Ready:
    """The same for what is left to executors.

    Parameters:
        taken: the seconds before.
    """
    began = time.monotonic()
    found = large.prepare(sides.site.site, sides.master.at, member)
    return found, taken + time.monotonic() - began


def _begin(
    sides: Sides, known: Sequence[Member], prepared: list[Ready]
) -> tuple[str, list[Keys], list[int]]:
    """Begin the site's own moment, with windows that are too wide left to executors.

    Parameters:
        prepared: by member; what is too wide is replaced.

    Returns:
        The site's position, and by member the keys of the site's own log, and the bytes
        of images that this process reads.
    """
    while True:
        sides.site.at.commit()
        here, apart = _hold(sides.site.at, known)
        mine = _site_keys(sides.site, known)
        sizes = [
            0
            if isinstance(changed, large.Prepared)
            else comparison.size(
                sides,
                Small(member=member, changed=changed, mine=its),
                apart.get(member.base.oid, 0),
            )
            for member, (changed, _), its in zip(known, prepared, mine, strict=True)
        ]
        wide = [n for n, size in enumerate(sizes) if size > MOST_BYTES]
        if not wide:
            return here, mine, sizes
        for number in wide:
            prepared[number] = _by_executors(sides, known[number], prepared[number][1])


def _site_keys(site: Side, members: Sequence[Member]) -> list[Keys]:
    """The keys of the site's own logs, by member; mostly there are none."""
    views = tuple(m.snapshot.log_view for m in members if m.method == FAST)
    full = {views[n] for n in _full(views).run(site.at).scalars()} if views else set()
    return [
        keys.read(site, one.logged_keys(), one.key_names)
        if one.log_view in full
        else keys.none(one.key_names)
        for one in (member.snapshot for member in members)
    ]


@lru_cache(maxsize=128)
def _full(views: tuple[str, ...]) -> Prepared:
    """Asks which updatable snapshot logs, by number, have keys.

    Building it takes longer than running it.
    """
    return which(map(holds_keys, views))


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
    sizes: Sequence[int],
) -> list[Compared]:
    """The differences of all snapshots, in their order: small ones in one job."""
    small = [
        Small(member=member, changed=changed, mine=keys, size=size)
        for member, changed, keys, size in zip(known, ready, mine, sizes, strict=True)
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
