"""What refreshes have cost says what the next one costs, and which way it takes."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from snapshots.differences.estimate import REACH, Costs, cheapest, estimate
from tests.seeds import seed

LINE = [(size, 0.2 + size / 1000) for size in (100, 200, 500, 1000)]


def test_estimate_has_a_fixed_part_and_one_that_grows() -> None:
    assert estimate(LINE, 100) == pytest.approx(0.3)
    assert estimate(LINE, 300) == pytest.approx(0.5)
    assert estimate(LINE, 5000) == pytest.approx(5.2)
    assert estimate(LINE, 0) == pytest.approx(0.2)


def test_estimate_never_falls_as_the_size_grows_and_is_never_negative() -> None:
    begun = seed("SNAPTIDE_ESTIMATE_SEED")
    chance = random.Random(begun)
    for _ in range(300):
        past = [
            (chance.choice([0, 1, 7, 1000, 1010, 10**7]), chance.expovariate(1))
            for _ in range(chance.randint(1, 20))
        ]
        largest = REACH * max(size for size, _ in past)
        sizes = sorted(chance.randint(0, largest) for _ in range(20))
        found = [estimate(past, size) for size in sizes]
        known = [one for one in found if one is not None]
        assert len(known) == len(found), begun
        assert min(known) >= 0, begun
        assert all(a <= b for a, b in pairwise(known)), begun


def test_one_refresh_that_had_to_wait_spoils_nothing() -> None:
    spoilt = [*LINE, (200, 600.0)]
    assert estimate(spoilt, 300) == pytest.approx(0.5, rel=0.5)


def test_sizes_that_hardly_differ_do_not_say_how_the_seconds_grow() -> None:
    """By these two alone, a table of twice the rows would take 200 seconds."""
    assert estimate([(20_000, 0.8), (20_010, 0.9)], 40_000) == pytest.approx(
        1.7, rel=0.1
    )


@pytest.mark.parametrize(
    ("past", "size"), [([], 10), ([(10, 0.1)], 101), ([(0, 0.1), (3, 0.1)], 31)]
)
def test_what_is_not_comparable_is_not_guessed(past: Costs, size: int) -> None:
    assert estimate(past, size) is None


@pytest.mark.parametrize(
    ("estimates", "way"),
    [
        ({"fast": 1.0, "sums": 2.0, "complete": 3.0}, "fast"),
        ({"fast": 3.0, "sums": 2.0, "complete": 2.5}, "sums"),
        ({"fast": 3.0, "sums": None, "complete": 2.5}, "complete"),
        ({"sums": 2.0, "complete": 1.0}, "complete"),
        # The first way is taken if nothing says that another one is cheaper.
        ({"fast": 2.0, "sums": 2.0}, "fast"),
        ({"fast": 3.0, "sums": None, "complete": None}, "fast"),
        ({"fast": None, "sums": 0.1, "complete": 0.1}, "fast"),
        ({"sums": None, "complete": 0.1}, "sums"),
        ({"complete": None}, "complete"),
    ],
)
def test_cheapest_way(estimates: dict[str, float | None], way: str) -> None:
    assert cheapest(estimates) == way
