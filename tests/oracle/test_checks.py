"""A small run of checks under load; `make soak KIND=checks` makes many more."""

from __future__ import annotations

import logging

import pytest

from tests.oracle.checks.play import GAME
from tests.oracle.checks.world import PLANTED
from tests.oracle.runner import small

SEED = 3
WORLDS = (1,)
RUNS = 5


def test_checks_find_what_was_planted_and_nothing_else(
    pg_version: int, spark: object, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    met = small.met(GAME, pg_version, SEED, WORLDS, RUNS)
    planted = [name for name in met if name.startswith("planted: ")]
    assert sum(met[name] for name in planted) == PLANTED * RUNS
    assert {"explained: in flight", "explained: pending"} <= set(met), met
