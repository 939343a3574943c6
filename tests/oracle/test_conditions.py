"""A small run of conditions, the same each time.

`make soak KIND=conditions` plays them by the thousand.
"""

from __future__ import annotations

import logging

import pytest

from tests.oracle.conditions.play import GAME
from tests.oracle.runner import small

SEED = 8
HISTORIES = 8
#: By number of the world, what is surely among what is drawn there with this seed.
WORLDS = {
    2: {
        "NOT above EXISTS",
        "OR above EXISTS",
        "follow",
        "held back",
        "kill in a push",
        "leaving: keep",
        "leaving: park",
        "nested 3",
        "only a parent",
        "partition columns",
        "rows of a child came or left",
        "self-join",
        "two parents",
    },
    6: {
        "composite key asked",
        "kill in a refresh",
        "leaving: freeze",
        "only a parent elsewhere",
        "partition columns altered",
    },
}


@pytest.mark.parametrize("world", WORLDS)
def test_snapshots_have_the_rows_of_their_conditions(
    pg_version: int, spark: object, caplog: pytest.LogCaptureFixture, world: int
) -> None:
    caplog.set_level(logging.ERROR)
    met = small.met(GAME, pg_version, SEED, [world], HISTORIES)
    assert set(met) >= WORLDS[world], met
