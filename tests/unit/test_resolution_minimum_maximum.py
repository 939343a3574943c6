"""Minimum and maximum: the lower or higher value wins, a tie as told (A.8, D.5)."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from uuid import UUID

import pytest

from masters.errors import InvalidParameter
from masters.resolution import Decision, Kind, build, virtuoso
from masters.resolution.extremes import Maximum, Minimum
from tests.unit.conflicts import update_conflict

ORDERED = [
    (1, 2),
    (-(2**62), 2**62),
    (1.5, float("inf")),
    (float("inf"), float("nan")),
    (Decimal("1.10"), Decimal("1.101")),
    (Decimal("-Infinity"), Decimal("-9e999")),
    (Decimal("Infinity"), Decimal("NaN")),
    ("Zebra", "ant"),
    ("a", "ab"),
    (b"\x00", b"\x01"),
    (False, True),
    (date(2026, 3, 1), date.max),
    (datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 1, 1, tzinfo=UTC)),
    (time(8), time(9)),
    (timedelta(days=1), timedelta(days=30)),
    (UUID(int=1), UUID(int=2)),
]


def decide(method: type[Minimum | Maximum], new: object, current: object) -> Decision:
    built = method.build({"column": "bid"}, ["bid", "bidder"])
    conflict = update_conflict(
        ("bid", "bidder"),
        old={"bid": None, "bidder": "a"},
        new={"bid": new, "bidder": "b"},
        current={"bid": current, "bidder": "c"},
    )
    return built(conflict).decision


@pytest.mark.parametrize(("low", "high"), ORDERED)
def test_the_lower_value_wins_by_minimum_the_higher_by_maximum(low, high):
    assert decide(Minimum, new=low, current=high) is Decision.SITE_WINS
    assert decide(Minimum, new=high, current=low) is Decision.MASTER_WINS
    assert decide(Maximum, new=high, current=low) is Decision.SITE_WINS
    assert decide(Maximum, new=low, current=high) is Decision.MASTER_WINS


@pytest.mark.parametrize(
    ("new", "current"),
    [
        (5, 5),
        (Decimal("5.0"), Decimal("5.00")),
        (float("nan"), float("nan")),
        (Decimal("NaN"), Decimal("NaN")),
        (0.0, -0.0),
        ("x", "x"),
    ],
)
@pytest.mark.parametrize("method", [Minimum, Maximum])
def test_equal_values_are_undecided(method, new, current):
    assert decide(method, new, current) is Decision.UNDECIDED


@pytest.mark.parametrize(
    ("new", "current"),
    [
        (1, "1"),
        ([1], [2]),
        ({}, {"a": 1}),
        (time(8), time(8, tzinfo=UTC)),
        (datetime(2026, 3, 1), datetime(2026, 3, 1, tzinfo=UTC)),
        (None, 1),
        (1, None),
    ],
)
@pytest.mark.parametrize("method", [Minimum, Maximum])
def test_null_and_what_does_not_compare_are_undecided(method, new, current):
    assert decide(method, new, current) is Decision.UNDECIDED


@pytest.mark.parametrize("class_name", ["min", "max"])
def test_acceptance_virtuoso_d7_7_a_tie_goes_to_the_subscriber(class_name):
    name, parameters = virtuoso(class_name, "bid")
    method = build(name, Kind.UPDATE, parameters, ["bid"])
    tie = update_conflict(("bid",), new={"bid": 5}, current={"bid": 5})
    assert method(tie).decision is Decision.SITE_WINS


@pytest.mark.parametrize("method", [Minimum, Maximum])
def test_the_column_belongs_to_the_group(method):
    with pytest.raises(InvalidParameter, match="bid"):
        method.build({"column": "bid"}, ["price"])
