"""Recording the runs of schedules, and finding those that are late.

Beat notes that it looks at a site, and when it asks for a run; a worker notes how the
run ended. The missing note shows whether beat or the worker is down.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy import Connection, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import SQLAlchemyError

from deferred.catalog import beat, schedule
from deferred.interval import is_calendar
from deferred.schedules import EVERYTHING
from sites import Site
from sites.catalog import activity
from sites.errors import NoConnectionFree, SnaptideError
from sites.sessions.activity import running

#: How long a run may be due, or beat not look, before it counts as late. Beat leaves a
#: failing site alone for up to 15 s, and a worker may have to finish other work.
GRACE = timedelta(seconds=60)

#: When a run that failed is due again, if it has a calendar: its next day may be a year
#: away.
AGAIN = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdue:
    """A run that is late."""

    kind: str
    subject: str
    since: datetime
    #: beat has asked for it and no worker has done it; else beat has not asked
    asked: bool


@contextmanager
def outcome(
    site: Site, kind: str, subject: str, *, in_progress: type[Exception] | None = None
) -> Iterator[None]:
    """Note how a run ended, if it has a schedule: with an error, or without.

    A run that found no free connection was not tried. It is not noted, and late until
    one is done.

    Parameters:
        in_progress: the error that says that another run is at work; it is not noted.

    Raises:
        the errors of the block.
    """
    try:
        yield
    except Exception as error:
        if not isinstance(error, (NoConnectionFree, *filter(None, [in_progress]))):
            with suppress(SnaptideError, SQLAlchemyError):
                _note(site, kind, subject, _reason(error))
        raise
    note_success(site, kind, subject)


def note_success(site: Site, kind: str, subject: str) -> None:
    """Note that a run ended without an error, if it has a schedule."""
    _note(site, kind, subject, None)


def note_look(connection: Connection) -> None:
    """Note that beat looks at a site; writes `beat`."""
    row = insert(beat).values(one_row=1, looked_at=func.now())
    connection.execute(
        row.on_conflict_do_update(
            index_elements=["one_row"], set_={"looked_at": row.excluded.looked_at}
        )
    )


def last_look(connection: Connection) -> datetime | None:
    """When beat last looked at a site; None if it never did."""
    return connection.scalar(select(beat.c.looked_at))


def is_away(looked_at: datetime | None, now: datetime) -> bool:
    """Whether beat, by its last look at a site, asks for no runs there."""
    return looked_at is None or looked_at < now - GRACE


def overdue(connection: Connection) -> list[Overdue]:
    """The runs that are late, by kind and subject."""
    late = func.now() - GRACE
    at = schedule.c
    # A run that is in progress is not late, however long it takes.
    works = sa.exists().where(
        running(),
        activity.c.kind == at.kind,
        sa.or_(at.subject == EVERYTHING, activity.c.subject == at.subject),
    )
    unanswered = sa.and_(at.asked_at < late, ~works)
    rows = connection.execute(
        select(
            at.kind,
            at.subject,
            sa.case((unanswered, at.asked_at), else_=at.next_at).label("since"),
            func.coalesce(unanswered, sa.false()).label("asked"),
        )
        .where(~at.disabled, sa.or_(at.next_at < late, unanswered))
        .order_by("kind", "subject")
    )
    return [Overdue(**row._mapping) for row in rows]


def _note(site: Site, kind: str, subject: str, error: str | None) -> None:
    at = schedule.c
    mine = sa.and_(at.kind == kind, at.subject == subject)
    news = sa.or_(at.last_error.is_distinct_from(error), at.asked_at.is_not(None))
    with site.transaction() as connection:
        connection.execute(
            sa.update(schedule)
            .where(mine, news)
            .values(last_error=error, asked_at=None)
        )
        every = connection.scalar(select(at.interval).where(mine)) if error else None
        if every is not None and is_calendar(every):
            soon = func.least(at.next_at, func.now() + AGAIN)
            connection.execute(sa.update(schedule).where(mine).values(next_at=soon))


def _reason(error: Exception) -> str:
    said = str(error) or type(error).__name__
    return f"{error.code} {said}" if isinstance(error, SnaptideError) else said
