"""Intervals of schedules: so many seconds, five fields of cron, or a calendar."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from sites.errors import SnaptideError
from snaptide_imports import lazily

if TYPE_CHECKING:
    import croniter

    from deferred import calendar
else:
    calendar, croniter = lazily("deferred.calendar"), lazily("croniter")

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])", re.ASCII)

#: Two runs closer than this would only find each other's locks.
SHORTEST = 0.5
#: A century, in seconds: the calendar ends some time after that.
LONGEST = 36525 * 86400


class BadInterval(SnaptideError):
    """This is neither a duration, nor a cron expression, nor a calendar."""

    code = "SNP-340"  # Oracle: ORA-23319
    hint = (
        'Write "10s", "5m", "2h", "1d", five fields of cron in UTC: "0 6 * * *", or a '
        'calendar: "at 03:00", "month feb day 29 at 03:00", "weekday sun at 03:00 '
        'Europe/Berlin".'
    )


def seconds_of(every: str) -> float | None:
    """A duration like `10s` in seconds; None for cron and calendars."""
    found = _SECONDS.fullmatch(every.strip())
    return float(found[1]) * _UNITS[found[2]] if found else None


def duration_of(every: str) -> timedelta | None:
    """A duration like `10s`, a century at most; None for cron and calendars."""
    seconds = seconds_of(every)
    return None if seconds is None else timedelta(seconds=min(seconds, LONGEST))


def next_time(every: str, due: datetime, now: datetime) -> datetime:
    """The next time of a run that was due at `due` and starts now.

    Missed runs are not made up for; the rhythm is kept.
    """
    seconds = seconds_of(every)
    if seconds is None:
        if found := calendar.Calendar.parse(every):
            return found.next_after(now)
        following: datetime = croniter.croniter(every, now.astimezone(UTC)).get_next(
            datetime
        )
        return following
    period = timedelta(seconds=max(seconds, SHORTEST))
    missed = max(int((now - due) / period), 0)
    return due + (missed + 1) * period


def next_times(every: str, due: datetime, count: int) -> list[datetime]:
    """The next times, the first of which is known; only that one if it has no others.

    Parameters:
        every: also what is no interval: a row of a schedule may be written by hand.
    """
    found = [due]
    with suppress(BadInterval):
        check_interval(every)
        while len(found) < count:
            found.append(next_time(every, found[-1], found[-1]))
    return found


def is_calendar(every: str) -> bool:
    """Whether an interval is a calendar."""
    with suppress(ValueError):
        return calendar.Calendar.parse(every) is not None
    return False


def check_interval(every: str) -> None:
    """Refuse a text that is no duration, cron or calendar, or that is never due.

    Raises:
        BadInterval.
    """
    seconds = seconds_of(every)
    if seconds is not None:
        if seconds < SHORTEST:
            raise BadInterval(f"{every!r} is shorter than {SHORTEST} s.", every=every)
        if seconds > LONGEST:
            raise BadInterval(f"{every!r} is longer than a century.", every=every)
        return
    try:
        if calendar.Calendar.parse(every):
            return
    except ValueError as error:
        raise BadInterval(f"{every!r}: {error}.", every=every) from None
    # croniter also takes six fields and words like @daily; the catalog does not.
    if len(every.split()) != 5 or not croniter.croniter.is_valid(every):
        raise BadInterval(
            f"{every!r} is neither a duration, nor cron, nor a calendar.", every=every
        )
    try:
        croniter.croniter(every).get_next()
    except croniter.CroniterBadDateError:
        raise BadInterval(
            f"{every!r} names a day that does not exist.", every=every
        ) from None
