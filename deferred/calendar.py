"""Calendars of schedules: month, day, weekday and time (Virtuoso: those of the purger).

Cron cannot say "the 31st, or the last day of a shorter month". What a calendar means is
what Virtuoso's purger makes of P_MONTH, P_DAY, P_WDAY and P_TIME.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import count
from typing import Self
from zoneinfo import ZoneInfo

# Not those of the module `calendar`: they depend on the locale.
_MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
_WEEKDAYS = (
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
)

_TEXT = re.compile(
    r"(?:month (?P<month>\w+) )?(?:day (?P<day>\d+) )?(?:weekday (?P<weekday>\w+) )?"
    r"at (?P<at>\S+)(?: (?P<zone>\S+))?",
    re.ASCII,
)
_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """The days on which something runs, once on each, and the time of day.

    | month | day | weekday | runs |
    |---|---|---|---|
    | given | given | given or not | once a year, on that day of that month |
    | given | | given or not | once a year, on the first of that month |
    | | given | given or not | once a month, on that day |
    | | | given | once a week, on that day |
    | | | | every day |

    In a month that is too short for the day it runs on the last one.
    """

    at: time
    month: int | None = None
    day: int | None = None
    #: Monday is 0; it does not count beside a month or a day
    weekday: int | None = None
    #: by whose clocks
    zone: str = "UTC"

    @classmethod
    def given(
        cls,
        *,
        at: str,
        month: str | None = None,
        day: int | None = None,
        weekday: str | None = None,
        zone: str | None = None,
    ) -> Self:
        """A calendar, of what people write.

        Raises:
            ValueError: something of it does not exist.
        """
        if not _TIME.fullmatch(at):
            raise ValueError(f"{at!r} is no time like 03:00")
        if day is not None and not 1 <= day <= 31:
            raise ValueError(f"no month has a day {day}")
        return cls(
            at=time.fromisoformat(at),
            month=None if month is None else _month(month),
            day=day,
            weekday=None if weekday is None else _weekday(weekday),
            zone=_zone(zone or "UTC"),
        )

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The calendar of a text like `month feb day 29 at 03:00`; None if it is none.

        Raises:
            ValueError: something of it does not exist.
        """
        found = _TEXT.fullmatch(" ".join(text.split()))
        if found is None:
            return None
        parts = found.groupdict()
        day = parts.pop("day")
        return cls.given(**parts, day=None if day is None else int(day))

    def __str__(self) -> str:
        parts = []
        if self.month is not None:
            parts.append(f"month {_MONTHS[self.month - 1][:3]}")
        if self.day is not None:
            parts.append(f"day {self.day}")
        if self.weekday is not None and not self.leaves_weekday_out:
            parts.append(f"weekday {_WEEKDAYS[self.weekday][:3]}")
        parts.append(f"at {self.at:%H:%M}")
        if self.zone != "UTC":
            parts.append(self.zone)
        return " ".join(parts)

    @property
    def leaves_weekday_out(self) -> bool:
        """Whether there is a weekday that does not count."""
        return self.weekday is not None and not (self.month is self.day is None)

    def next_after(self, now: datetime) -> datetime:
        """The first time after a moment, in UTC.

        Where clocks are put forward over the time, it is as much later; where they pass
        it twice, it is the first of the two.
        """
        zone = ZoneInfo(self.zone)
        for day in _days_from(now.astimezone(zone).date() - timedelta(days=1)):
            if self._is_on(day):
                found = datetime.combine(day, self.at, zone).astimezone(UTC)
                if found > now:
                    return found
        raise AssertionError("each year has such a day")

    def _is_on(self, one: date) -> bool:
        if self.month is not None or self.day is not None:
            last = monthrange(one.year, one.month)[1]
            right_day = one.day == min(self.day or 1, last)
            return right_day and self.month in (None, one.month)
        return self.weekday in (None, one.weekday())


def _days_from(first: date) -> Iterator[date]:
    return (first + timedelta(days=n) for n in count())


def _month(text: str) -> int:
    if text.isdecimal() and 1 <= int(text) <= 12:
        return int(text)
    return _named(text, _MONTHS, "month") + 1


def _weekday(text: str) -> int:
    # Names only: countries, and systems, begin to count at other days.
    return _named(text, _WEEKDAYS, "weekday")


def _named(text: str, names: Sequence[str], what: str) -> int:
    """The place of a name, which may be cut to its first three letters."""
    for place, name in enumerate(names):
        if text.lower() in (name, name[:3]):
            return place
    known = ", ".join(name[:3] for name in names)
    raise ValueError(f"{text!r} is no {what}; there are {known}")


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (OSError, ValueError, LookupError):
        raise ValueError(f"{name!r} is no time zone like Europe/Berlin") from None
    return name
