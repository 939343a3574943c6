"""A small campaign; `make campaign KIND=masters CRASHES=2000` is the large one."""

import os

import pytest

from tests.campaign import several_masters

CRASHES = int(os.environ.get("SNAPTIDE_CRASHES", "4"))


@pytest.mark.faults
@pytest.mark.usefixtures("spark")
def test_masters_and_sites_are_equal_after_crashes() -> None:
    """Each booking counts once at each of them; this seed has many verbs."""
    try:
        done = list(several_masters.episode(seed=198, number=4, crashes=CRASHES))
    finally:
        several_masters.end()
    assert len(done) == CRASHES
