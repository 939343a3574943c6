"""A small run of conditions, the same each time.

`make soak KIND=conditions` plays them by the thousand.
"""

from __future__ import annotations

import logging

import pytest

from tests.oracle.conditions.play import GAME
from tests.oracle.runner import small

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
    "partition columns",
    "partition columns altered",
    "rows of a child came or left",
    "self-join",
    "two parents",
}


def test_snapshots_have_the_rows_of_their_conditions(
    pg_version: int, spark: object, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    met = small.met(GAME, pg_version, SEED, WORLDS, HISTORIES)
    assert set(met) >= DRAWN, met
