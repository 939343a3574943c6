"""Tells how much time has passed between positions, also if a clock was set meanwhile.

Clocks jump: they are set by hand, or by a server that was wrong. So each note of a
position has, besides what the master's clock says, a reading of a clock that nobody can
set: the seconds since the machine that takes the note was started. Between two notes of
one machine this is the time that has passed. The master's clock counts only from the
last note of another machine, or from before a restart.
"""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from socket import gethostname
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, func, select

from masters.contract_catalog import position_time
from sites.capture import position

_at = position_time.c

#: Seconds for which notes are kept. A change that has waited for longer was found to
#: wait by an earlier look.
KEPT = 7 * 86400.0

#: Names a run of this machine; on Linux the kernel has one.
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def reading() -> tuple[str, float]:
    """The run of this machine, and for how many seconds it has run."""
    since_boot = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    run = _BOOT.read_text("ascii").strip() if _BOOT.exists() else gethostname()
    return run, time.clock_gettime(since_boot)


def note(connection: Connection) -> float:
    """Note the master's position now, and forget old notes. Writes `position_time`.

    Returns:
        The seconds that have passed since the first note.
    """
    clock, seconds = reading()
    now = connection.execute(select(func.clock_timestamp())).scalar_one()
    last = _last(connection)
    mine = _last(connection, _at.clock == clock, _at.reading <= seconds)
    passed = 0.0
    if mine is not None:
        passed = mine.passed + seconds - mine.reading
    elif last is not None:
        passed = last.passed + (now - last.at).total_seconds()
    if last is not None:
        passed = max(passed, last.passed)
    connection.execute(
        sa.insert(position_time).values(
            position=func.pg_current_snapshot(),
            at=now,
            clock=clock,
            reading=seconds,
            passed=passed,
        )
    )
    connection.execute(sa.delete(position_time).where(_at.passed < passed - KEPT))
    return passed


def of_change(
    connection: Connection, xid: str, made_at: datetime | None, now: float
) -> float:
    """When a change was made, in seconds since the first note.

    It was committed between two notes: one that does not see it, and the first that
    does. In between, the time that the change has says when.

    Parameters:
        xid: its transaction.
        made_at: what the master's clock said.
        now: what `note` has returned.
    """
    visible = position.visible(position.xid8(xid), _at.position)
    seen = connection.execute(
        select(position_time).where(visible).order_by(_at.id).limit(1)
    ).one_or_none()
    if seen is None:
        return now
    before = _last(connection, _at.id < seen.id)
    found: float = seen.passed
    if made_at is not None:
        found -= max((seen.at - made_at).total_seconds(), 0.0)
    return found if before is None else max(found, before.passed)


def of_refresh(connection: Connection, xid: str, at: datetime, now: float) -> float:
    """When the master heard of a refresh, in seconds since the first note.

    Where the clock and the machine disagree, it is the earlier of both: nobody is
    called late because of that.

    Parameters:
        xid: the transaction that noted it.
        at: what the master's clock said.
        now: what `note` has returned.
    """
    latest = of_change(connection, xid, at, now)
    visible = position.visible(position.xid8(xid), _at.position)
    before = _last(connection, sa.not_(visible))
    if before is None:
        return latest
    earliest: float = before.passed + max((at - before.at).total_seconds(), 0.0)
    return min(latest, earliest)


def _last(connection: Connection, *which: sa.ColumnElement[bool]) -> sa.Row[Any] | None:
    return connection.execute(
        select(position_time).where(*which).order_by(_at.id.desc()).limit(1)
    ).one_or_none()
