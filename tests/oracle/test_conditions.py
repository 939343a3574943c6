"""A small run of conditions, the same each time.

`make soak KIND=conditions` plays them by the thousand.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator

import pytest
from rich.console import Console

from tests.oracle.conditions import play, shapes
from tests.oracle.runner import report
from tests.oracle.runner.ground import Ground, ground

SEED = 8
WORLDS = (2, 6)
HISTORIES = 8
#: What is surely among what is drawn with this seed.
DRAWN = {
    "NOT above EXISTS",
    "OR above EXISTS",
    "composite key asked",
    "follow",
    "held back",
    "kill in a push",
    "leaving: freeze",
    "leaving: keep",
    "leaving: park",
    "nested 3",
    "only a parent",
    "only a parent elsewhere",
    "rows of a child came or left",
    "self-join",
    "two parents",
}


@pytest.fixture
def here(pg_version: int, spark: object) -> Iterator[Ground]:
    with ground(pg_version) as made:
        yield made


def test_snapshots_have_the_rows_of_their_conditions(
    here: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    met: Counter[str] = Counter()
    for number in WORLDS:
        played = play.world(here, SEED, number, HISTORIES)
        assert played.violations == [], played.story
        met.update(played.met)
    Console().print(report.table(met, HISTORIES * len(WORLDS), shapes.ALL))
    assert set(met) >= DRAWN, met
