"""Estimates what a way of a refresh will cost, from what it has cost before.

An estimate is a fixed part and a part that grows with the size, both of them medians:
one refresh that had to wait does not spoil it. What is not known from a comparable size
is not guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import median

#: Beyond so many times the largest size that is recorded, nothing is known.
REACH = 10

#: Refreshes that went one way: the size of each, and its seconds.
Costs = Sequence[tuple[int, float]]


def estimate(past: Costs, size: int) -> float | None:
    """The seconds that a way will take; it never falls as the size grows.

    Returns:
        None if no comparable refresh is recorded.
    """
    if not past or size > REACH * max(one for one, _ in past):
        return None
    most_each = median(seconds / max(one, 1) for one, seconds in past)
    slopes = [
        (there[1] - here[1]) / (there[0] - here[0])
        for here, there in combinations(past, 2)
        if here[0] != there[0]
    ]
    # Of one size alone, nothing says how the seconds grow: the way is taken, and noted.
    each = min(max(median(slopes), 0.0), most_each) if slopes else 0.0
    fixed = median(seconds - each * one for one, seconds in past)
    return max(fixed, 0.0) + each * size


def cheapest(estimates: Mapping[str, float | None]) -> str:
    """The way to take.

    Parameters:
        estimates: by way that can be taken, in the order in which they are preferred.
            If the cost of the first one is not known, it is taken, and known then.
    """
    first = next(iter(estimates))
    if estimates[first] is None:
        return first
    known = {way: cost for way, cost in estimates.items() if cost is not None}
    return min(known, key=lambda way: known[way])
