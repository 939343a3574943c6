"""Site priority: the higher site wins, same or unlisted decides nothing (A.8)."""

from __future__ import annotations

from decimal import Decimal

import pytest

from masters.errors import InvalidParameter
from masters.resolution import Decision
from masters.resolution.site_priority import SitePriority
from tests.unit.conflicts import update_conflict

PRIORITIES = {"hq": 10, "jfk": 20, "ewr": 5, "lga": 5}


def by_column(new: object, current: object) -> Decision:
    method = SitePriority.build(
        {"column": "site", "priorities": PRIORITIES}, ["price", "site"]
    )
    return method(
        update_conflict(("price", "site"), new={"site": new}, current={"site": current})
    ).decision


def by_origin(origin: str, master: str = "hq") -> Decision:
    method = SitePriority.build({"priorities": PRIORITIES}, ["price"])
    return method(update_conflict(origin=origin, master=master)).decision


def test_the_site_named_in_the_column_decides():
    assert by_column(new="jfk", current="ewr") is Decision.SITE_WINS
    assert by_column(new="ewr", current="jfk") is Decision.MASTER_WINS


@pytest.mark.parametrize(
    ("new", "current"),
    [
        ("jfk", "jfk"),
        ("ewr", "lga"),
        ("bos", "hq"),
        ("hq", "bos"),
        (None, "hq"),
        (7, 7),
    ],
)
def test_same_unlisted_or_null_is_undecided(new, current):
    assert by_column(new, current) is Decision.UNDECIDED


def test_without_a_column_the_origin_is_compared_with_the_master():
    assert by_origin("jfk") is Decision.SITE_WINS
    assert by_origin("ewr") is Decision.MASTER_WINS
    assert by_origin("ewr", master="lga") is Decision.UNDECIDED
    assert by_origin("bos") is Decision.UNDECIDED
    assert by_origin("jfk", master="bos") is Decision.UNDECIDED


def test_numbers_of_any_type_compare():
    priorities = {"hq": 1.5, "jfk": Decimal("1.6")}
    method = SitePriority.build({"priorities": priorities}, ["price"])
    assert method(update_conflict()).decision is Decision.SITE_WINS


@pytest.mark.parametrize(
    "priorities",
    [
        {},
        ["hq"],
        {"hq": "1"},
        {"hq": None},
        {"hq": True},
        {"hq": float("nan")},
        {"hq": Decimal("NaN")},
        {7: 1},
    ],
)
def test_priorities_are_names_and_numbers(priorities):
    with pytest.raises(InvalidParameter):
        SitePriority.build({"priorities": priorities}, ["price"])


def test_the_column_belongs_to_the_group():
    with pytest.raises(InvalidParameter, match="'site'"):
        SitePriority.build({"priorities": PRIORITIES, "column": "site"}, ["price"])
