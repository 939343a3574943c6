"""Calendars of schedules: all that month, day, weekday and time can say together."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from deferred.calendar import Calendar
from deferred.interval import (
    BadInterval,
    check_interval,
    is_calendar,
    next_time,
    next_times,
)

#: A Saturday.
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def runs(text: str, now: datetime = NOW, count: int = 5) -> list[str]:
    """The next runs by a calendar, in UTC."""
    check_interval(text)
    first = next_time(text, now, now)
    return [f"{one:%Y-%m-%d %H:%M}" for one in next_times(text, first, count)]


#: By options: the text of the calendar, and its next days at 03:00. Beside a month or a
#: day, Virtuoso's purger takes any weekday for none.
ALL = [
    (
        {"month": "feb", "day": 14, "weekday": "fri"},
        "month feb day 14 at 03:00",
        "2026-02-14 2027-02-14 2028-02-14 2029-02-14 2030-02-14",
    ),
    (
        {"month": "2", "day": 14},
        "month feb day 14 at 03:00",
        "2026-02-14 2027-02-14 2028-02-14 2029-02-14 2030-02-14",
    ),
    (
        {"month": "January", "weekday": "Friday"},
        "month jan at 03:00",
        "2027-01-01 2028-01-01 2029-01-01 2030-01-01 2031-01-01",
    ),
    (
        {"month": "1"},
        "month jan at 03:00",
        "2027-01-01 2028-01-01 2029-01-01 2030-01-01 2031-01-01",
    ),
    (
        {"day": 15, "weekday": "sun"},
        "day 15 at 03:00",
        "2026-02-15 2026-03-15 2026-04-15 2026-05-15 2026-06-15",
    ),
    (
        {"day": 1},
        "day 1 at 03:00",
        "2026-02-01 2026-03-01 2026-04-01 2026-05-01 2026-06-01",
    ),
    (
        {"weekday": "SAT"},
        "weekday sat at 03:00",
        "2026-02-07 2026-02-14 2026-02-21 2026-02-28 2026-03-07",
    ),
    (
        {},
        "at 03:00",
        "2026-02-01 2026-02-02 2026-02-03 2026-02-04 2026-02-05",
    ),
]


@pytest.mark.parametrize(("given", "text", "days"), ALL)
def test_all_eight(given: dict[str, object], text: str, days: str) -> None:
    made = Calendar.given(at="03:00", **given)  # type: ignore[arg-type]
    assert str(made) == text
    assert made.leaves_weekday_out == ("weekday" in given and "weekday" not in text)
    assert runs(text) == [f"{day} 03:00" for day in days.split()]


@pytest.mark.parametrize(
    ("text", "days"),
    [
        (
            "day 31 at 23:30",
            "2026-01-31 2026-02-28 2026-03-31 2026-04-30 2026-05-31",
        ),
        (
            "day 30 at 23:30",
            "2026-02-28 2026-03-30 2026-04-30 2026-05-30 2026-06-30",
        ),
        (
            "month feb day 29 at 23:30",
            "2026-02-28 2027-02-28 2028-02-29 2029-02-28 2030-02-28",
        ),
        (
            "month apr day 31 at 23:30",
            "2026-04-30 2027-04-30 2028-04-30 2029-04-30 2030-04-30",
        ),
    ],
)
def test_the_last_day_stands_in_for_days_that_a_month_lacks(
    text: str, days: str
) -> None:
    assert runs(text) == [f"{day} 23:30" for day in days.split()]


def test_a_century_without_a_leap_day() -> None:
    now = datetime(2099, 12, 31, tzinfo=UTC)
    assert runs("month feb day 29 at 00:00", now, 1) == ["2100-02-28 00:00"]


@pytest.mark.parametrize(
    ("text", "now", "expected"),
    [
        # In Berlin, 02:30 is left out on 29 March, and there twice on 25 October.
        (
            "at 02:30 Europe/Berlin",
            datetime(2026, 3, 27, 12, tzinfo=UTC),
            ["2026-03-28 01:30", "2026-03-29 01:30", "2026-03-30 00:30"],
        ),
        (
            "at 02:30 Europe/Berlin",
            datetime(2026, 10, 23, 12, tzinfo=UTC),
            ["2026-10-24 00:30", "2026-10-25 00:30", "2026-10-26 01:30"],
        ),
        (
            "weekday sun at 02:30 Europe/Berlin",
            datetime(2026, 10, 20, tzinfo=UTC),
            ["2026-10-25 00:30", "2026-11-01 01:30", "2026-11-08 01:30"],
        ),
        # It is the first there while it is still the last of the month in UTC.
        (
            "day 1 at 03:00 Asia/Tokyo",
            NOW,
            ["2026-01-31 18:00", "2026-02-28 18:00", "2026-03-31 18:00"],
        ),
        # 30 December 2011 did not exist in Samoa.
        (
            "at 09:00 Pacific/Apia",
            datetime(2011, 12, 29, 12, tzinfo=UTC),
            ["2011-12-29 19:00", "2011-12-30 19:00", "2011-12-31 19:00"],
        ),
    ],
)
def test_clock_changes(text: str, now: datetime, expected: list[str]) -> None:
    assert runs(text, now, 3) == expected


def test_it_never_runs_twice_at_one_time() -> None:
    at = datetime(2026, 2, 1, 3, tzinfo=UTC)
    assert next_time("at 03:00", at, at) == at.replace(day=2)
    assert next_time("at 03:00", at, at.replace(hour=2, minute=59)) == at


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("at 24:00", "no time like 03:00"),
        ("at 3:00", "no time like 03:00"),
        ("day 0 at 03:00", "no month has a day 0"),
        ("day 32 at 03:00", "no month has a day 32"),
        ("month 13 at 03:00", "is no month"),
        ("month febr at 03:00", "is no month; there are jan, feb"),
        ("weekday 1 at 03:00", "is no weekday; there are mon, tue"),
        ("at 03:00 Europe/Nowhere", "no time zone"),
        ("at 03:00 ../etc/passwd", "no time zone"),
        ("day 5 month feb at 03:00", "neither a duration"),
        ("month feb day 5", "neither a duration"),
    ],
)
def test_what_does_not_exist_is_refused(text: str, why: str) -> None:
    with pytest.raises(BadInterval, match=why):
        check_interval(text)
    assert not is_calendar(text)
