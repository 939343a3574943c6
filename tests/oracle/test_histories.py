"""A small run of histories, the same each time; `make soak` plays them by the thousand.

A world of each kind.
"""

from __future__ import annotations

import logging

import pytest

from tests.oracle.histories.play import GAME
from tests.oracle.runner import small

SEED = 1
#: By number: of rows, columns, masters with rules, masters without, and lenses.
WORLDS = (1, 3, 5, 7, 10)
HISTORIES = 16
#: What is surely among what is drawn with this seed.
DRAWN = {
    "a push broken off",
    "change over two lenses",
    "delete",
    "parked",
    "statement on a partition",
    "switch of master",
}


def test_nothing_happens_that_nobody_is_told_of(
    pg_version: int, spark: object, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    met = small.met(GAME, pg_version, SEED, WORLDS, HISTORIES)
    assert set(met) >= DRAWN, met
