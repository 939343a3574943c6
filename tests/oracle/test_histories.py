"""A small run of histories, the same each time; `make soak` plays them by the thousand.

A world of each kind.
"""

from __future__ import annotations

import logging

import pytest

from tests.oracle.histories.play import GAME
from tests.oracle.runner import small

SEED = 1
HISTORIES = 16
#: Worlds by number: of rows, columns, clashes, masters with rules, masters without, and
#: lenses; each with what is surely among what is drawn there with this seed.
WORLDS = {
    1: {"a push broken off", "delete"},
    3: {"DDL in the middle", "parked", "statement on a partition"},
    4: {"lock lost", "verb refused"},
    5: {"change at a master", "push broken off", "switch of master"},
    7: {"masters: parked", "masters: push broken off"},
    10: {"change over two lenses", "snapshot made again"},
}


@pytest.mark.parametrize("world", WORLDS)
def test_nothing_happens_that_nobody_is_told_of(
    pg_version: int, spark: object, caplog: pytest.LogCaptureFixture, world: int
) -> None:
    caplog.set_level(logging.ERROR)
    met = small.met(GAME, pg_version, SEED, [world], HISTORIES)
    assert set(met) >= WORLDS[world], met
