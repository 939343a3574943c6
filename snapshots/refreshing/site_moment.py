"""Begins the site's own moment, once the keys that executors need stand there.

Executors see what was committed before. A window is left to them if it has too many
keys, which is known at once, or rows that are too wide: with those of the site's own
log, that is known only in its moment, which then begins again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TypeAlias

from sqlalchemy import Connection, select

from sites.capture import position
from sites.conditions import ranges
from snapshots.differences import comparison, large
from snapshots.differences.comparison import Small
from snapshots.differences.window import Member
from snapshots.keys import Keys, Sides
from snapshots.refreshing.task import hold

#: What a window needs before the site's own moment, and how many seconds that took.
Ready: TypeAlias = "tuple[Keys | large.Prepared, float]"


def prepare(sides: Sides, member: Member, *, executors: bool = False) -> Ready:
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


def begin(
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
        mine = [comparison.site_keys(sides.site, member) for member in known]
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
            prepared[number] = prepare(sides, known[number], executors=True)


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
