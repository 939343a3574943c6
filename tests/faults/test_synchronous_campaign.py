"""A small campaign; `make campaign KIND=sync CRASHES=2000` is the large one."""

import os

import pytest

from tests.campaign import synchronous

CRASHES = int(os.environ.get("SNAPTIDE_CRASHES", "12"))


@pytest.mark.faults
def test_money_is_neither_made_nor_lost_by_crashes() -> None:
    done = list(synchronous.episode(seed=7, number=1, crashes=CRASHES))

    assert len(done) == CRASHES
