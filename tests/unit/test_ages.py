"""The drawn age of a refresh group is exact, wherever its clock stands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any
from xml.etree import ElementTree as xml
from zoneinfo import ZoneInfo

import pytest

from snapshots import PastRefresh
from snaptide.web import ages
from snaptide.web.ages import Block, Line

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
AT = NOON.timestamp()


def past(
    ended: datetime,
    previous: datetime | None,
    *,
    outcome: str = "refreshed",
    first: datetime | None = None,
    longest: timedelta | None = None,
    steps: Mapping[str, float] = MappingProxyType({}),
) -> PastRefresh:
    return PastRefresh(
        outcome=outcome,
        first_at=first or ended,
        ended_at=ended,
        refreshes=1 if longest is None else 3,
        longest=longest,
        previous_at=previous,
        seconds=1,
        steps=steps,
        ways={},
        methods=(),
        inserted=0,
        updated=0,
        deleted=0,
        held_back=0,
        error=None,
    )


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def test_it_grows_from_each_refresh_to_the_next() -> None:
    found = ages.of(
        [past(after(90), after(30)), past(after(30), None)], after(90), after(100)
    )
    assert found is not None
    assert found.lines == [Line(AT + 30, AT + 90, 0), Line(AT + 90, AT + 100, 0)]
    assert (found.start, found.now, found.highest) == (AT + 30, AT + 100, 60)


def test_it_begins_with_what_the_refresh_took_after_it_had_read_the_master() -> None:
    long = {"push": 7, "window": 1, "compare": 20, "load": 3, "merge": 4.5}
    first, last = past(after(30), None, steps=long), past(after(90), after(30))
    failed = past(after(60), after(30), outcome="failed", steps={"window": 9})
    found = ages.of([last, failed, first], after(90), after(100))
    assert found is not None
    assert found.lines == [Line(AT + 30, AT + 90, 28.5), Line(AT + 90, AT + 100, 0)]
    assert found.failed == [(AT + 60, 58.5)]
    assert found.highest == 88.5


def test_nothing_is_drawn_where_it_is_not_known() -> None:
    assert ages.of([], None, NOON) is None
    failed = past(after(5), None, outcome="failed")
    assert ages.of([failed], None, after(9)) is None
    found = ages.of([past(after(20), None), failed], after(20), after(30))
    assert found is not None
    assert found.lines == [Line(AT + 20, AT + 30, 0)]
    assert found.failed == []
    # As after an upgrade, when no refresh is noted yet.
    found = ages.of([], after(-50), NOON)
    assert found is not None
    assert (found.start, found.highest) == (AT - 50, 50)


def test_a_gap_stays_a_gap() -> None:
    """Rows that somebody has deleted leave one: no line leads over it."""
    some = [past(after(900), after(800)), past(after(20), after(10))]
    found = ages.of(some, after(900), after(950))
    assert found is not None
    assert [(one.start - AT, one.end - AT) for one in found.lines] == [
        (10, 20),
        (800, 900),
        (900, 950),
    ]
    drawn = paths(found)
    assert drawn.count("M") == 3 + 1  # and the frame


def test_failures_do_not_end_it() -> None:
    some = [
        past(after(80), NOON),
        past(after(40), NOON, outcome="failed"),
    ]
    found = ages.of(some, after(80), after(80))
    assert found is not None
    assert found.failed == [(AT + 40, 40)]
    assert found.highest == 80


def test_of_failures_that_share_a_row_the_first_and_the_last_are_known() -> None:
    some = past(
        after(70),
        NOON,
        outcome="failed",
        first=after(40),
        longest=timedelta(seconds=20),
    )
    found = ages.of([some], NOON, after(90))
    assert found is not None
    assert found.failed == [(AT + 40, 40), (AT + 70, 70)]
    assert (found.blocks, found.highest) == ([], 90)


def test_refreshes_that_share_a_row_are_a_block() -> None:
    some = past(
        after(500),
        NOON,
        outcome="nothing new",
        first=after(10),
        longest=timedelta(seconds=70),
    )
    found = ages.of([some], after(500), after(520))
    assert found is not None
    assert found.blocks == [Block(AT + 10, AT + 500, 70)]
    assert found.lines == [Line(AT, AT + 10, 0), Line(AT + 500, AT + 520, 0)]
    assert found.highest == 70


def test_a_long_time_is_cut_at_its_exact_age() -> None:
    week = timedelta(days=7)
    old = NOON - 3 * week
    some = [
        past(NOON - week / 2, NOON - 2 * week),
        past(NOON - 2 * week, old),
    ]
    found = ages.of(some, NOON - week / 2, NOON)
    assert found is not None
    seven = week.total_seconds()
    assert found.lines == [
        Line(AT - seven, AT - seven / 2, seven),
        Line(AT - seven / 2, AT, 0),
    ]
    assert found.highest == 1.5 * seven


@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", "America/New_York", "Asia/Kathmandu"]
)
def test_the_clock_of_a_zone_may_jump(zone: str) -> None:
    """Two in the morning comes twice, or not at all; seconds go on."""
    for day in (datetime(2026, 3, 29, tzinfo=UTC), datetime(2026, 10, 25, tzinfo=UTC)):
        times = [day + timedelta(hours=h) for h in range(10)]
        local = [one.astimezone(ZoneInfo(zone)) for one in times]

        def drawn(moments: list[datetime]) -> Any:
            pairs = zip(moments[1:9], moments, strict=False)
            some = [past(ended, before) for ended, before in pairs][::-1]
            return ages.of(some, moments[8], moments[9])

        assert drawn(local) == drawn(times)
        assert {one.end - one.start for one in drawn(local).lines} == {3600}


def test_a_moment_is_told_in_the_zone_of_the_site() -> None:
    assert ages.moment(AT + 0.5, NOON) == "2026-03-01 12:00:00 UTC"
    there = NOON.astimezone(ZoneInfo("Europe/Berlin"))
    assert ages.moment(AT, there) == "2026-03-01 13:00:00 CET"


def test_a_clock_that_was_set_back_is_no_error() -> None:
    some = [past(after(-90), after(30)), past(after(30), after(10))]
    found = ages.of(some, after(-90), after(-80))
    assert found is not None
    xml.fromstring(ages.drawn(found, "a", "b"))


def test_the_drawing_stands_alone() -> None:
    """No style, no script, all of it inside the frame, and readers hear what it is."""
    some = [
        past(after(500), NOON, outcome="nothing new", longest=timedelta(seconds=7)),
        past(NOON, None),
        past(after(-5), None, outcome="failed"),
    ]
    found = ages.of(some, after(500), after(900))
    assert found is not None
    text = ages.drawn(found, "<b>", "now & then")
    root = xml.fromstring(text)
    assert root.get("role") == "img"
    assert next(iter(root)).text == "Age of the group from <b> to now & then"
    assert not re.search(r"style|script|class", text)
    for x, y in points(paths(found)):
        assert 64 <= x <= 512
        assert 14 <= y <= 150


def test_a_hundred_refreshes_are_small() -> None:
    some = [
        past(after(n * 10), after(n * 10 - 7), outcome=outcome, longest=longest)
        for n in range(100, 0, -1)
        for outcome, longest in (
            ("nothing new", timedelta(seconds=9)) if n % 2 else ("failed", None),
        )
    ]
    found = ages.of(some, after(1000), after(2000))
    assert found is not None
    assert len(ages.drawn(found, "a", "b").encode()) < 6_000


def paths(found: ages.Ages) -> str:
    root = xml.fromstring(ages.drawn(found, "a", "b"))
    return " ".join(one.get("d", "") for one in root.iter("path"))


def points(path: str) -> Iterator[tuple[float, float]]:
    for x, y in re.findall(r"M([\d.]+) ([\d.]+)", path):
        yield float(x), float(y)
