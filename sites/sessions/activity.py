"""Reporting the progress of long work to people who wait; never for decisions.

Progress is written through a connection of its own, so that it shows while the
transaction of the work is open, and at most twice a second. If it cannot be written,
the work goes on all the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Boolean, ColumnElement, Connection, func
from sqlalchemy.exc import SQLAlchemyError

from sites.catalog import activity
from sites.errors import SnaptideError
from sites.progress import Progress
from sites.sessions.prepared import Prepared
from sites.sessions.site import Site

#: Seconds between two writes.
PACE = 0.5

#: The session still exists, and its pid is not that of a newer session. Without the
#: right to see when another user's session began, the pid alone counts.
_RUNNING = """
EXISTS (
    SELECT FROM pg_stat_activity a
    WHERE a.pid = activity.pid
      AND COALESCE(a.backend_start <= activity.started_at, true)
)
"""


@contextmanager
def report(
    site: Site, kind: str, subject: str, also: Progress | None = None
) -> Iterator[Progress]:
    """Show work in `snaptide status` while the block runs.

    Writes the table `activity`, commits at once, removes its row at the end.

    Parameters:
        kind: push, refresh, purge, ...
        subject: its object: a destination, a refresh group.
        also: receives every step, too, and at once; for a progress bar.
    """
    reporter = _Reporter(also)
    reporter.attempt(lambda: reporter.begin(site, kind, subject))
    try:
        yield reporter
    finally:
        reporter.attempt(reporter.end)


class Speed:
    """Measures the speed of work from its progress; starts anew with another unit."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._first = self._last = 0
        self._unit: str | None = None

    def per_second(self, done: int, unit: str) -> float | None:
        """The mean since the start of this unit; None until something is done."""
        now = time.monotonic()
        if done < self._last or (self._unit is not None and unit != self._unit):
            self._began, self._first = now, done
        self._last, self._unit = done, unit
        seconds, made = now - self._began, done - self._first
        return made / seconds if made > 0 and seconds > 0 else None


class _Reporter:
    """The row of one piece of work, and the connection that writes it."""

    def __init__(self, also: Progress | None) -> None:
        self._also = also
        self._connection: Connection | None = None
        self._close: Callable[[], Any] = lambda: None
        self._id = 0
        self._next = 0.0
        self._speed = Speed()

    def __call__(self, done: int, total: int | None, unit: str) -> None:
        if self._also is not None:
            self._also(done, total, unit)
        rate = self._speed.per_second(done, unit)
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + PACE
            self.attempt(lambda: self._write(done, total, unit, rate))

    def attempt(self, step: Callable[[], None]) -> None:
        """Do a step; if the site refuses it, stop reporting to it."""
        try:
            step()
        except (SQLAlchemyError, SnaptideError):
            self._let_go()

    def begin(self, site: Site, kind: str, subject: str) -> None:
        opened = site.session()
        connection = opened.__enter__()
        self._close = lambda: opened.__exit__(None, None, None)
        self._connection = connection.execution_options(isolation_level="AUTOCOMMIT")
        sweep(connection)
        begun = _BEGUN.run(connection, its_kind=kind, its_subject=subject)
        self._id = begun.scalar_one()

    def end(self) -> None:
        if self._connection is not None:
            self._connection.execute(
                sa.delete(activity).where(activity.c.id == self._id)
            )
        self._let_go()

    def _write(
        self, done: int, total: int | None, unit: str, rate: float | None
    ) -> None:
        if self._connection is not None:
            self._connection.execute(
                sa.update(activity)
                .where(activity.c.id == self._id)
                .values(done=done, total=total, unit=unit, rate=rate)
            )

    def _let_go(self) -> None:
        self._connection = None
        close, self._close = self._close, lambda: None
        with suppress(SQLAlchemyError):
            close()


def running() -> ColumnElement[bool]:
    """Whether the session that wrote a row of `activity` still exists."""
    return sa.literal_column(_RUNNING, Boolean)


def sweep(connection: Connection) -> None:
    """Remove the rows of work whose session has ended; writes `activity`."""
    _SWEPT.run(connection)


_BEGUN = Prepared(
    sa.insert(activity)
    .values(
        kind=sa.bindparam("its_kind", type_=sa.Text),
        subject=sa.bindparam("its_subject", type_=sa.Text),
        pid=func.pg_backend_pid(),
    )
    .returning(activity.c.id)
)
_SWEPT = Prepared(sa.delete(activity).where(~running()))
