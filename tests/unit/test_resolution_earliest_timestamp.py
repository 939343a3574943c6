"""Earliest timestamp: older wins, equal or NULL decides nothing."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from masters.resolution import Decision
from masters.resolution.extremes import EarliestTimestamp
from tests.unit.conflicts import update_conflict

EARLY = datetime(2026, 3, 1, 8, tzinfo=UTC)
LATE = datetime(2026, 3, 1, 9, tzinfo=UTC)


def decide(new: object, current: object) -> Decision:
    method = EarliestTimestamp.build({"column": "booked"}, ["seat", "booked"])
    conflict = update_conflict(
        ("seat", "booked"),
        new={"seat": "1A", "booked": new},
        current={"seat": "1B", "booked": current},
    )
    return method(conflict).decision


@pytest.mark.parametrize(
    ("early", "late"),
    [
        (EARLY, LATE),
        (EARLY, datetime.max),
        (datetime.min, EARLY),
        (date(2026, 1, 1), date(2026, 1, 2)),
    ],
)
def test_the_older_stamp_wins(early, late):
    assert decide(new=early, current=late) is Decision.SITE_WINS
    assert decide(new=late, current=early) is Decision.MASTER_WINS


@pytest.mark.parametrize(
    ("new", "current"),
    [(EARLY, EARLY), (None, EARLY), (EARLY, None), (EARLY, 5), (EARLY, "2026-03-01")],
)
def test_equal_null_and_what_is_no_stamp_are_undecided(new, current):
    assert decide(new, current) is Decision.UNDECIDED
