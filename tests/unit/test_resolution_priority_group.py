"""Priority group: the value of higher priority wins."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from uuid import UUID

import pytest

from masters.errors import InvalidParameter
from masters.resolution import Decision, Resolution
from masters.resolution.priority_group import PriorityGroup
from tests.unit.conflicts import update_conflict

STATUS = {"ordered": 1, "sold": 2, "shipped": 2, "billed": 3}


def ask(new: object, current: object, priorities: object = STATUS) -> Resolution:
    method = PriorityGroup.build(
        {"column": "status", "priorities": priorities}, ["status"]
    )
    return method(
        update_conflict(("status",), new={"status": new}, current={"status": current})
    )


def test_the_value_of_higher_priority_wins():
    assert ask(new="billed", current="sold").decision is Decision.SITE_WINS
    assert ask(new="ordered", current="sold").decision is Decision.MASTER_WINS


@pytest.mark.parametrize(
    ("new", "current"),
    [
        ("sold", "sold"),
        ("sold", "shipped"),
        ("lost", "sold"),
        ("sold", "lost"),
        (None, "sold"),
        ("sold", None),
        ([], "sold"),
    ],
)
def test_same_unlisted_or_null_is_undecided(new, current):
    assert ask(new, current).decision is Decision.UNDECIDED


def test_the_value_that_is_not_listed_is_named():
    assert ask("sold", "lost").reason == "status: 'lost' has no priority"


@pytest.mark.parametrize(
    ("low", "high", "priorities"),
    [
        (10, 2, {"10": 1, "2": 2}),
        (False, True, {"false": 1, "true": 2}),
        (Decimal("1.50"), Decimal("100"), {"1.5": 1, "100": 2}),
        (date(2026, 3, 1), date(2026, 1, 1), {"2026-03-01": 1, "2026-01-01": 2}),
        (UUID(int=2), UUID(int=1), {str(UUID(int=2)): 1, str(UUID(int=1)): 2}),
        ("sold   ", "billed ", STATUS),
    ],
)
def test_values_are_named_as_text_whatever_their_type(low, high, priorities):
    assert ask(high, low, priorities).decision is Decision.SITE_WINS
    assert ask(low, high, priorities).decision is Decision.MASTER_WINS


@pytest.mark.parametrize(
    "priorities", [{}, ["sold"], {"sold": "1"}, {"sold": True}, {1: 1}, {"a": None}]
)
def test_priorities_are_values_as_text_and_numbers(priorities):
    with pytest.raises(InvalidParameter):
        ask("sold", "billed", priorities)
