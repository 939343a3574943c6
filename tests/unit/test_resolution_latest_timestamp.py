"""Latest timestamp: newer wins, equal or NULL decides nothing."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from masters.errors import InvalidParameter
from masters.resolution import Decision
from masters.resolution.extremes import LatestTimestamp
from tests.unit.conflicts import update_conflict

EARLY = datetime(2026, 3, 1, 8, tzinfo=UTC)
LATE = datetime(2026, 3, 1, 9, tzinfo=UTC)
INFINITY = datetime.max.replace(tzinfo=UTC)
MINUS_INFINITY = datetime.min.replace(tzinfo=UTC)


def decide(new: object, current: object) -> Decision:
    method = LatestTimestamp.build({"column": "updated"}, ["price", "updated"])
    conflict = update_conflict(
        ("price", "updated"),
        old={"price": 1, "updated": None},
        new={"price": 2, "updated": new},
        current={"price": 3, "updated": current},
    )
    return method(conflict).decision


@pytest.mark.parametrize(
    ("early", "late"),
    [
        (EARLY, LATE),
        (EARLY, INFINITY),
        (MINUS_INFINITY, EARLY),
        (MINUS_INFINITY, INFINITY),
        (EARLY, datetime.max),
        (date(2026, 1, 1), date(2026, 1, 2)),
        (date(2026, 1, 1), date.max),
        (date.min, date(2026, 1, 1)),
        (datetime(2026, 1, 1), datetime(2026, 1, 1, microsecond=1)),
    ],
)
def test_the_newer_stamp_wins(early, late):
    assert decide(new=late, current=early) is Decision.SITE_WINS
    assert decide(new=early, current=late) is Decision.MASTER_WINS


@pytest.mark.parametrize("stamp", [EARLY, INFINITY, MINUS_INFINITY, date.max])
def test_equal_stamps_are_undecided(stamp):
    assert decide(stamp, stamp) is Decision.UNDECIDED


def test_one_moment_in_two_zones_is_equal():
    elsewhere = EARLY.astimezone(timezone(timedelta(hours=5)))
    assert decide(EARLY, elsewhere) is Decision.UNDECIDED


def test_infinity_is_one_moment_with_a_zone_or_without():
    assert decide(INFINITY, datetime.max) is Decision.UNDECIDED
    assert decide(datetime.min, MINUS_INFINITY) is Decision.UNDECIDED


def test_the_hour_that_daylight_saving_repeats_is_told_apart():
    new_york = ZoneInfo("America/New_York")
    first = datetime(2026, 11, 1, 1, 50, tzinfo=new_york)
    second = datetime(2026, 11, 1, 1, 10, fold=1, tzinfo=new_york)
    assert decide(new=second, current=first) is Decision.SITE_WINS


@pytest.mark.parametrize("other", [5, "2026-03-01", datetime(2026, 3, 1)])
def test_what_does_not_compare_is_undecided(other):
    assert decide(EARLY, other) is Decision.UNDECIDED


def test_the_column_belongs_to_the_group():
    with pytest.raises(InvalidParameter, match="updated"):
        LatestTimestamp.build({"column": "updated"}, ["price"])
