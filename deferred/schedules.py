"""Schedules of a site, as rows of its own catalog (Oracle: SCHEDULE_PUSH).

Beat reads them again and again, so a change takes effect without a restart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, func, select
from sqlalchemy.dialects.postgresql import insert

from deferred.catalog import destination
from deferred.catalog import schedule as catalog
from deferred.errors import BadOption
from deferred.interval import (
    BadInterval,
    check_interval,
    next_time,
    next_times,
    seconds_of,
)
from deferred.options import OF_WORK
from sites import Site
from sites.catalog import SCHEMA
from sites.errors import SnaptideError
from sites.sessions import identity

#: Subject of runs for a site as a whole: its purge, a push to all destinations.
EVERYTHING = "*"

# A table of the package `snapshots`, which is above; only its names matter here.
_group = sa.table("refresh_group", sa.column("name"), schema=SCHEMA)

#: Where the names of subjects are found, by kind of work. A push may be to all, and a
#: check of all.
_SUBJECTS = {
    "push": destination.c.name,
    "refresh": _group.c.name,
    "check": _group.c.name,
}

#: The values that are cleared when a schedule is replaced.
_AS_NEW = {"last_error": None, "asked_at": None}


class BadSchedule(SnaptideError):
    """This cannot be scheduled."""

    code = "SNP-341"
    hint = (
        "Schedule a push, refresh, purge or check, with its own options, for a "
        "destination or refresh group that the site has."
    )


class NoSuchSchedule(SnaptideError):
    """The site has no such schedule."""

    code = "SNP-342"
    hint = "List them with: snaptide schedule list SITE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A schedule: a kind of work that runs by itself at a site."""

    #: push, refresh, purge or check
    kind: str
    #: a destination, a refresh group, or * for all
    subject: str
    #: "10s", "5m", five fields of cron in UTC, or a calendar: "day 31 at 03:00"
    interval: str
    options: Mapping[str, Any]
    disabled: bool
    next_at: datetime
    last_at: datetime | None
    last_error: str | None
    #: when beat first asked for a run that no worker has ended since
    asked_at: datetime | None


def schedule(
    site: Site, kind: str, subject: str = EVERYTHING, *, every: str, **options: Any
) -> Schedule:
    """Create a schedule, or replace the one of the same kind and subject.

    Writes the table `schedule` of the site. The first run of an interval in
    seconds is due at once, that of cron or a calendar at its next time.

    Parameters:
        kind: push, refresh, purge or check.
        subject: a destination, a refresh group, or `*`.
        every: `10s`, `5m`, `2h`, `1d`, five fields of cron in UTC, or a calendar
            (docs/howto/schedule.md): `month feb day 29 at 03:00 Europe/Berlin`.
        **options: those of the verb, as `transaction_count=1000`.

    Raises:
        BadSchedule: also if the site has no such destination or group.
        BadOption: the verb has no such option, or its value is not allowed.
        BadInterval, SiteNotInitialised, SiteUnreachable.
    """
    given = check(kind, subject, every, options)
    values = {"interval": every, "options": given, "disabled": False}
    with identity.initialised(site) as connection:
        _require(connection, kind, subject)
        now = _now(connection)
        first = now if seconds_of(every) is not None else next_time(every, now, now)
        row = insert(catalog).values(
            kind=kind, subject=subject, next_at=first, **values
        )
        connection.execute(
            row.on_conflict_do_update(
                index_elements=["kind", "subject"],
                set_={**values, "next_at": first, **_AS_NEW},
            )
        )
        return _get(connection, kind, subject)


def unschedule(site: Site, kind: str, subject: str = EVERYTHING) -> None:
    """Delete a schedule.

    Raises:
        NoSuchSchedule: there is none.
    """
    with identity.initialised(site) as connection:
        _get(connection, kind, subject)
        connection.execute(sa.delete(catalog).where(_is(kind, subject)))


def enable_schedule(
    site: Site, kind: str, subject: str = EVERYTHING, *, enabled: bool = True
) -> Schedule:
    """Let a schedule run, or pause it; its interval and options stay.

    Raises:
        NoSuchSchedule: there is none.
    """
    with identity.initialised(site) as connection:
        found = _get(connection, kind, subject)
        now = _now(connection)
        # Runs that were missed during the pause are not made up for.
        due = next_time(found.interval, found.next_at, now)
        connection.execute(
            sa.update(catalog)
            .where(_is(kind, subject))
            .values(
                disabled=not enabled, next_at=max(due, found.next_at), asked_at=None
            )
        )
        return _get(connection, kind, subject)


def find_schedule(site: Site, kind: str, subject: str = EVERYTHING) -> Schedule:
    """One schedule of a site.

    Raises:
        NoSuchSchedule: there is none.
    """
    with identity.initialised(site) as connection:
        return _get(connection, kind, subject)


def next_runs(
    site: Site, kind: str, subject: str = EVERYTHING, *, count: int = 5
) -> list[datetime]:
    """When a schedule runs next, if it is not paused.

    Parameters:
        count: so many times.

    Raises:
        NoSuchSchedule: there is none.
    """
    found = find_schedule(site, kind, subject)
    return next_times(found.interval, found.next_at, count)


def list_schedules(site: Site) -> list[Schedule]:
    """All schedules of a site."""
    with identity.initialised(site) as connection:
        return all_of(connection)


def all_of(connection: Connection) -> list[Schedule]:
    """All schedules of a site, by kind and subject."""
    rows = connection.execute(select(catalog).order_by("kind", "subject"))
    return [_from_row(row) for row in rows]


def count(connection: Connection) -> int:
    """How many schedules a site has."""
    return connection.scalar(select(func.count()).select_from(catalog)) or 0


def claim(connection: Connection) -> list[Schedule]:
    """Take the due schedules, and set when they are due again; the caller commits.

    The beat that locks the row runs it: a second beat skips it, and finds it moved when
    it looks again. A last run in the future was timed by a wrong clock: the schedule
    would not run again for as long as that clock was ahead, so its rhythm starts again
    from now. Writes `schedule`.
    """
    now = _now(connection)
    due = sa.or_(catalog.c.next_at <= now, catalog.c.last_at > now)
    rows = connection.execute(
        select(catalog)
        .where(~catalog.c.disabled, due)
        .order_by("next_at")
        .with_for_update(skip_locked=True)
    ).all()
    return [taken for row in rows if (taken := _take(connection, row, now))]


def next_due(connection: Connection) -> float | None:
    """The seconds until a schedule is due; below 0 if one is, None if none ever is."""
    first = func.min(catalog.c.next_at) - func.now()
    seconds = select(sa.cast(func.extract("epoch", first), sa.Double))
    return connection.scalar(seconds.where(~catalog.c.disabled))


def put_back(connection: Connection, claimed: Schedule) -> None:
    """Let a schedule that was claimed be due still; the caller commits.

    Writes `schedule`.
    """
    connection.execute(
        sa.update(catalog)
        .where(_is(claimed.kind, claimed.subject))
        .values(next_at=claimed.next_at, last_at=claimed.last_at)
    )


def check(
    kind: str, subject: str, every: str, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Refuse a schedule that could never run; returns its options as plain JSON.

    Raises:
        BadSchedule: the kind is unknown, or does not take the subject.
        BadOption: this kind has no such option, or its value is not allowed.
        BadInterval: it is neither a duration, nor cron, nor a calendar.
    """
    if kind not in OF_WORK:
        raise BadSchedule(f"{kind!r} is not one of {', '.join(OF_WORK)}.", kind=kind)
    if kind == "refresh" and subject == EVERYTHING:
        raise BadSchedule("A refresh needs the name of one refresh group.")
    if kind == "purge" and subject != EVERYTHING:
        raise BadSchedule("A purge covers the whole site: leave out the name.")
    check_interval(every)
    return OF_WORK[kind].of(options).given


def _require(connection: Connection, kind: str, subject: str) -> None:
    """Refuse a schedule that would always fail, because nothing here has that name.

    Raises:
        BadSchedule.
    """
    if kind not in _SUBJECTS or subject == EVERYTHING:
        return
    name = _SUBJECTS[kind]
    known = connection.scalars(select(name).order_by(name)).all()
    if subject not in known:
        what = "destination" if kind == "push" else "refresh group"
        raise BadSchedule(
            f"This site has no {what} {subject!r}; it has: "
            f"{', '.join(known) or 'none'}.",
            known=known,
        )


def _take(connection: Connection, row: sa.Row[Any], now: datetime) -> Schedule | None:
    """Set the next time of a due schedule; None if it cannot run now."""
    found = _from_row(row)
    values: dict[str, Any] = {"last_at": now, "asked_at": found.asked_at or now}
    wrong = _wrong_with(found)
    ran_ahead = found.last_at is not None and found.last_at > now
    if wrong is None:
        before = now if ran_ahead else found.next_at
        values["next_at"] = next_time(found.interval, before, now)
    else:
        # Such a row was written by hand. It stays, and doctor shows it.
        values = {"next_at": now + timedelta(hours=1), "last_error": wrong}
    connection.execute(
        sa.update(catalog).where(_is(found.kind, found.subject)).values(values)
    )
    # By cron or a calendar, it waits for its time, though.
    waits = ran_ahead and seconds_of(found.interval) is None
    return found if wrong is None and not waits else None


def _wrong_with(found: Schedule) -> str | None:
    try:
        check(found.kind, found.subject, found.interval, found.options)
    except (BadInterval, BadOption, BadSchedule) as error:
        return error.message
    return None


def _get(connection: Connection, kind: str, subject: str) -> Schedule:
    row = connection.execute(select(catalog).where(_is(kind, subject))).one_or_none()
    if row is None:
        raise NoSuchSchedule(f"No {kind} of {subject} is scheduled here.")
    return _from_row(row)


def _is(kind: str, subject: str) -> sa.ColumnElement[bool]:
    return sa.and_(catalog.c.kind == kind, catalog.c.subject == subject)


def _now(connection: Connection) -> datetime:
    """The site's time, not this machine's: beats may run on several machines."""
    now: datetime = connection.execute(select(func.now())).scalar_one()
    return now


def _from_row(row: sa.Row[Any]) -> Schedule:
    return Schedule(**{name: getattr(row, name) for name in Schedule.__slots__})
