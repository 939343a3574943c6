"""When something is due again."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deferred.interval import (
    SHORTEST,
    BadInterval,
    check_interval,
    next_time,
    seconds_of,
)

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10s", 10),
        ("0.5s", 0.5),
        ("5m", 300),
        ("2 h", 7200),
        ("1d", 86400),
        ("1w", 604800),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds
    check_interval(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10",
        "s",
        "-1s",
        "0s",
        "0.1s",
        "10s 5m",
        "* * * *",
        "* * * * * *",
        "61 * * * *",
        "@daily",
        "1e3s",
        "\u0663s",
        "36526d",
        "99999999999d",
        "0 0 30 2 *",
    ],
)
def test_neither_duration_nor_cron_or_never(text: str) -> None:
    with pytest.raises(BadInterval):
        check_interval(text)


def test_cron_is_in_utc() -> None:
    check_interval("0 6 * * *")
    assert next_time("0 6 * * *", NOON, NOON) == NOON.replace(day=22, hour=6)
    tokyo = NOON.astimezone(timezone(timedelta(hours=9)))
    assert next_time("0 6 * * *", tokyo, tokyo) == NOON.replace(day=22, hour=6)


def test_sundays() -> None:
    assert next_time("0 3 * * 0", NOON, NOON) == NOON.replace(day=22, hour=3)


def test_missed_times_of_cron_are_not_made_up_for() -> None:
    late = NOON + timedelta(days=3)
    assert next_time("0 6 * * *", NOON, late) == NOON.replace(day=25, hour=6)


def test_the_next_time_is_never_now() -> None:
    then = NOON + timedelta(seconds=10)
    assert next_time("10s", NOON, then) == NOON + timedelta(seconds=20)


def test_a_run_before_its_time_is_that_run() -> None:
    """The clock was set back, or somebody began it by hand."""
    early = NOON - timedelta(minutes=5)
    assert next_time("10s", NOON, early) == NOON + timedelta(seconds=10)


@pytest.mark.parametrize("every", ["0s", "0.1s"])
def test_shorter_than_the_shortest_is_the_shortest(every: str) -> None:
    assert next_time(every, NOON, NOON) == NOON + timedelta(seconds=SHORTEST)


def test_the_rhythm_is_kept() -> None:
    late = NOON + timedelta(seconds=3)
    assert next_time("10s", NOON, late) == NOON + timedelta(seconds=10)


@given(
    every=st.integers(1, 10_000),
    late=st.floats(0, 1e6, allow_nan=False),
)
def test_missed_runs_are_not_made_up_for(every: int, late: float) -> None:
    now = NOON + timedelta(seconds=late)
    due = next_time(f"{every}s", NOON, now)
    assert now < due <= now + timedelta(seconds=every)
