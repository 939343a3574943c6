"""Reports as JSON and as text."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum

import pytest

from snaptide.cli.output import cell, plain
from snaptide.units import duration


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    inner: tuple[Inner, ...]
    number: uuid.UUID
    took: timedelta


def test_a_report_as_json() -> None:
    number = uuid.uuid4()
    noon = datetime(2026, 11, 21, 12, tzinfo=UTC)
    report = Outer(inner=(Inner(at=noon),), number=number, took=timedelta(minutes=1))
    assert plain(report) == {
        "inner": [{"at": "2026-11-21T12:00:00+00:00"}],
        "number": str(number),
        "took": 60.0,
    }


def test_values_as_json() -> None:
    found = plain({"a": Colour.RED, "b": None, "c": {3}, "d": Decimal("1.50"), 5: True})
    assert found == {"a": "red", "b": None, "c": [3], "d": "1.50", "5": True}
    assert type(found["a"]) is str


def test_square_brackets_are_no_markup() -> None:
    assert cell("[red]x[/red]") == r"\[red]x\[/red]"
    assert (cell(None), cell(True), cell(12345), cell(())) == (
        "-",
        "yes",
        "12,345",
        "-",
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.42, "0.4 s"),
        (12, "12 s"),
        (300, "5 min"),
        (7200, "2 h"),
        (200_000, "2 d"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text
