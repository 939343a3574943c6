"""A small run of histories, the same each time; `make soak` plays them by the thousand.

A world of each kind.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator

import pytest
from rich.console import Console

from tests.oracle.histories import play, shapes
from tests.oracle.runner import report
from tests.oracle.runner.ground import Ground, ground

SEED = 1
#: By number: of rows, columns, and masters.
WORLDS = (1, 3, 5)
HISTORIES = 16
#: What is surely among what is drawn with this seed.
DRAWN = {
    "a push broken off",
    "delete",
    "parked",
    "statement on a partition",
    "switch of master",
}


@pytest.fixture
def here(pg_version: int, spark: object) -> Iterator[Ground]:
    with ground(pg_version) as made:
        yield made


def test_nothing_happens_that_nobody_is_told_of(
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
